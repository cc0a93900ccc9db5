// The runs: from a client's request to the last host's completion.
//
//   submit -> waits for its turn (policy) -> admitted: memory reserved on all its hosts -> prepared
//   and granted: two frames, the same bytes for each host -> all are done -> the client is told
//
// RunTable leads a run through its life: checks what it names (arguments.h), waits for its turn
// (queue.h) and for room (admission.h), sends it to its hosts, and ends it once: when all of them
// are done, a host is lost, or it is stopped before it was granted. A run that is asked to stop
// after that ends as its hosts say: they alone know whether the request came before its commit.
//
// A run whose time limit has passed ends for its client in any case: when a host does not answer
// the cancellation for kAnswerMs, since a device of it is stuck, the client is told so. What the
// run reserved stays reserved until that host answers, which nobody hears of any more, or is lost.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: submit() never throws: what is wrong with a run is its result. A client is told the end
// of each of its runs exactly once.
// Cost: O(hosts + arguments) a run; nothing grows with nodes or shards.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/scheduler/admission.h"
#include "controller/scheduler/queue.h"
#include "controller/scheduler/run.h"

namespace gangway {

class RunTable {
 public:
  struct Callbacks {
    std::function<void(SessionId, RunDoneFrame)> ended;  // The run by the client's name.
    std::function<std::string(SessionId)> owner_name;    // "client \"trainer\"".
  };
  RunTable(HostTable& hosts, PlanTable& plans, ObjectTable& objects, Callbacks callbacks,
           std::unique_ptr<Policy> policy = std::make_unique<Fifo>());

  void submit(SessionId session, RunFrame request, int64_t now_ns);
  void cancel(SessionId session, RunId client_run, const Error& why);
  void host_done(HostId host, RunDoneFrame done);
  void host_lost(HostId host, const Error& why);
  // If the run fails in the end, its client hears of it.
  void note_stuck(HostId host, const StuckDevice& stuck);
  void session_closed(SessionId session);
  // Something was freed: grants what can go now.
  void pump();
  // In its turn among the session's runs (queue.h).
  void in_order(SessionId session, std::function<void(Ticket)> send) {
    queue_.in_order(session, std::move(send));
  }

  static constexpr int64_t kAnswerMs = 2000;
  // The next time limit, and the runs that are past theirs. `late_ns`: for so long the controller
  // stood still since the last look, which is no time in which a host did not answer.
  std::optional<int64_t> next_deadline_ns() const;
  void expire(int64_t now_ns, int64_t late_ns);

  size_t size() const { return runs_.size(); }  // Waiting or in flight.

 private:
  void start(RunRecord& run);
  void prepare(RunRecord& run);
  void grant(const RunRecord& run, Ticket first);
  void send(const RunRecord& run, const Frame& frame);
  void ask_to_stop(RunRecord& run, const Error& why);
  void set_deadline(RunRecord& run, int64_t time_ns);
  void forgive_standstill(int64_t late_ns);
  void tell_unanswered(RunRecord& run);
  static void break_chain(const RunRecord& run);
  void tell(RunRecord& run);
  void host_finished(RunRecord& run, HostId host);
  void end(RunRecord& run);
  const Error* broken_chain(const RunRecord& run);
  RunRecord* find(SessionId session, RunId client_run);

  HostTable& hosts_;
  PlanTable& plans_;
  ObjectTable& objects_;
  Callbacks callbacks_;
  RunQueue queue_;
  Admission admission_;
  std::map<RunId, std::unique_ptr<RunRecord>> runs_;
  std::map<std::pair<SessionId, RunId>, RunId> by_client_;
  std::set<std::pair<int64_t, RunId>> deadlines_;
  uint64_t last_run_ = 0;
};

}  // namespace gangway
