// Gate: counts work in flight, so that an owner can wait for all of it before it goes away.
//
// Threads: the reactor's thread. Errors: enter() throws kCancelled once the gate is closing.
//
//   Gate gate("runs of host 3");
//   reactor.spawn("run", [&, pass = gate.enter()] { ... });
//   gate.close();                                            // Suspends until every pass was
//   dropped.
#pragma once

#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class Gate {
 public:
  // One piece of work in flight.
  class [[nodiscard]] Pass {
   public:
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr && --gate_->in_flight_ == 0) gate_->empty_.wake_all();
    }

   private:
    friend class Gate;
    explicit Pass(Gate* gate) : gate_(gate) { ++gate_->in_flight_; }
    Gate* gate_;
  };

  explicit Gate(std::string name) : name_(std::move(name)) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  Pass enter() {
    if (closing_) throw Error(ErrorKind::kCancelled, name_ + ": closing, no new work is taken");
    return Pass(this);
  }
  size_t in_flight() const { return in_flight_; }
  bool closing() const { return closing_; }

  // Refuses new work from now on. Suspends until the work in flight is done.
  void close() {
    closing_ = true;
    while (in_flight_ > 0) empty_.wait("for work in flight to end");
  }

 private:
  std::string name_;
  size_t in_flight_ = 0;
  bool closing_ = false;
  WaitQueue empty_;
};

}  // namespace gangway
