// Task: a Work made of one function, for what is rare: initialisers, copies to and from clients.
//
// Threads: made anywhere; runs on the device's thread; deletes itself. Errors: the function must
// not throw.
//
//   enqueue_task(device, [](Turn& turn) { ...; return Progress::kDone; });
#pragma once

#include <utility>

#include "executor/device.h"

namespace gangway {

template <class Body>
void enqueue_task(Device& device, Body body) {
  struct Task final : Work {
    explicit Task(Body b) : body(std::move(b)) {}
    Progress advance(Turn& turn) override { return body(turn); }
    void retire(bool) override { delete this; }
    Body body;
  };
  device.enqueue(*new Task(std::move(body)));
}

}  // namespace gangway
