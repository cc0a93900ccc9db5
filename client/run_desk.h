// RunDesk: what a session on the reactor and the threads of its user share: the runs whose ends are
// awaited, and the arrays that were let go.
//
// Why: a thread that sends a run itself, past the reactor, saves waking it. The ends of runs arrive
// on the reactor, which so needs to know of the run before it has heard of it. What is let go is
// told with the next run, or by the reactor, which looks for it while it is awake anyway.
//
// Threads: send() and let_go() anywhere; the others on the reactor's. Completions run there.
// Ownership: shared by the session and its client.
// Errors: none; what can't be sent here goes by the reactor.
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

  // Sends the run, behind what was let go before. False: it can't be sent past the reactor now.
  bool send(const RunFrame& frame, const RunDone& done);
  // False: the reactor must be told, since it does not look.
  bool let_go(ArrayId array);

  void add(RunId run, RunDone done);
  // Null: it is not awaited.
  RunDone take(RunId run);
  // Nothing is sent here from now on.
  std::map<RunId, RunDone> close();
  std::vector<ArrayId> take_let_go();
  // The reactor looks for what was let go until there is nothing. begin: whether it did not before.
  bool begin_to_look();
  bool may_end_to_look();

 private:
  const std::shared_ptr<DirectSender> direct_;
  std::mutex mutex_;
  std::map<RunId, RunDone> runs_;  // What follows is guarded by it, too.
  std::vector<ArrayId> let_go_;
  bool is_looked_for_ = false;
  bool is_closed_ = false;
};

}  // namespace gangway::internal
