// Steps that the controller enqueues by itself: arguments and results of Executable::repeat()
// (client/client.h).
//
// Threads: values, and a handle that is safe from any thread.
// Errors: gangway::Error, as in client/client.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "client/tensor.h"
#include "protocol/reported.h"
#include "protocol/schedule.h"
#include "runtime/base/error.h"

namespace gangway {

namespace internal {
class ExecutableImpl;
}  // namespace internal

// One input of a repeated program: the same tensor in all steps, {"lr", 1e-3f}, or a line over
// them, {"step", Schedule::linear(1, 1)}. A program computes other learning rates from the number
// of the step (programs/optim/schedule.h).
struct RepeatedInput {
  std::string name;
  std::variant<HostTensor, Schedule> value;
};

struct RepeatStatus {
  int64_t steps = 0;           // Number asked for.
  int64_t done = 0;            // Number that have committed.
  bool ended = false;          // No step is under way, and none will be.
  std::optional<Error> error;  // Why it ended early.
  Reported outputs;            // The scalars of the last step that has committed: {"loss", 3.1}.
};

// See Executable::repeat().
class Repeat {
 public:
  Repeat(std::shared_ptr<internal::ExecutableImpl> impl, uint64_t number);
  RepeatStatus status() const;  // kInvalid once the executable is repeated again.
  RepeatStatus wait() const;    // Waits until it has ended; throws its error.
  // Enqueues no more steps. Steps that are enqueued still end, and wait() returns then.
  void cancel() const;

 private:
  RepeatStatus ask(bool cancels, bool waits) const;

  std::shared_ptr<internal::ExecutableImpl> impl_;
  uint64_t number_ = 0;
};

}  // namespace gangway
