// Task: a Work that runs one function, for rare work: initialisers, copies to and from clients.
//
// `end` is called once all that the function started is done, with its error, or null.
// Threads: created on any thread; runs on the device's; deletes itself.
// Errors: the functions must not throw.
//
// Example:
//   enqueue_task(stream, [](Turn& turn) {
//     initialise(turn);
//     return Progress::kDone;
//   });
#pragma once

#include <utility>

#include "executor/devices/device_stream.h"

namespace gangway {

// Order of a task among the other works: after all lower tickets that share `state`, and before all
// higher ones; after the works in `rank_stream`. Without them: as soon as it can run.
struct TaskOrder {
  uint64_t ticket = 0;
  const void* state = nullptr;
  RankStream* rank_stream = nullptr;
};

template <class Body, class End>
void enqueue_task(DeviceStream& stream, Body body, End end, TaskOrder order = {}) {
  struct Task final : Work {
    Task(Body b, End e, TaskOrder o) : body(std::move(b)), end(std::move(e)), order(o) {}
    Progress advance(Turn& turn) override { return body(turn); }
    void settled(Turn&, const std::shared_ptr<const Error>& failure) override { end(failure); }
    void retire(bool) override { delete this; }
    uint64_t ticket() const override { return order.ticket; }
    std::span<const void* const> states() const override {
      return {&order.state, order.state == nullptr ? size_t{0} : size_t{1}};
    }
    Body body;
    End end;
    TaskOrder order;
  };
  Work& task = *new Task(std::move(body), std::move(end), order);
  order.rank_stream == nullptr ? stream.enqueue(task) : stream.enqueue(task, *order.rank_stream);
}

template <class Body>
void enqueue_task(DeviceStream& stream, Body body) {
  enqueue_task(stream, std::move(body), [](const std::shared_ptr<const Error>&) {});
}

}  // namespace gangway
