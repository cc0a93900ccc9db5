// RunDesk: state of a session that its reactor shares with the user's threads: the runs whose ends
// are awaited, and the arrays that were released.
//
// Why: a thread that sends a run itself, past the reactor, saves waking it. The ends of runs arrive
// on the reactor, so such a run is entered here before it is sent. Released arrays are reported
// with the next run, or by the reactor, which looks for them while it is awake anyway.
//
// Threads: send() and release() anywhere; the others on the reactor's. Completions run there.
// Ownership: a part of the session.
// Errors: none; the reactor sends a run that can't be sent here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "protocol/messages.h"
#include "runtime/net/direct_sender.h"

namespace gangway::internal {

using RunDone = std::function<void(RunDoneFrame)>;

class RunDesk {
 public:
  explicit RunDesk(std::shared_ptr<DirectSender> direct) : direct_(std::move(direct)) {}

  // Sends the run, behind the arrays released before, and takes `done`. False: the run can't be
  // sent past the reactor now, and `done` is as it was.
  bool send(const RunFrame& frame, RunDone& done);
  // False: the reactor must be told of the array, since it does not look.
  bool release(ArrayId array);

  void add(RunId run, RunDone done);
  // Null if the run is not awaited.
  RunDone take(RunId run);
  // Sends nothing from now on. Returns the runs that are still awaited.
  std::map<RunId, RunDone> close();
  std::vector<ArrayId> take_released();
  // The reactor looks for released arrays until there are none. begin_to_look() returns whether it
  // did not look before.
  bool begin_to_look();
  bool may_end_to_look();

 private:
  const std::shared_ptr<DirectSender> direct_;
  std::mutex mutex_;
  std::map<RunId, RunDone> runs_;  // Guarded by mutex_, as what follows.
  std::vector<ArrayId> released_;
  bool is_looked_for_ = false;
  bool is_closed_ = false;
};

}  // namespace gangway::internal
