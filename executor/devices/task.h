// Task: a Work that runs one function, for what is rare: initialisers, copies to and from clients.
//
// `end` is called once what the function started is done, with what went wrong, or null.
// Threads: created on any thread; runs on the device's; deletes itself.
// Errors: the functions must not throw.
//
// Example:
//   enqueue_task(device, [](Turn& turn) {
//     initialise(turn);
//     return Progress::kDone;
//   });
#pragma once

#include <utility>

#include "executor/devices/device.h"

namespace gangway {

template <class Body, class End>
void enqueue_task(Device& device, Body body, End end) {
  struct Task final : Work {
    Task(Body b, End e) : body(std::move(b)), end(std::move(e)) {}
    Progress advance(Turn& turn) override { return body(turn); }
    void settled(Turn&, const std::shared_ptr<const Error>& failure) override { end(failure); }
    void retire(bool) override { delete this; }
    Body body;
    End end;
  };
  device.enqueue(*new Task(std::move(body), std::move(end)));
}

template <class Body>
void enqueue_task(Device& device, Body body) {
  enqueue_task(device, std::move(body), [](const std::shared_ptr<const Error>&) {});
}

}  // namespace gangway
