// RunLog: the runs that a program has submitted since its newest checkpoint, as its client named
// things, so that they can be run again when a host is lost.
//
//   base, run, run, run ...   the states of version `base`, and all that was run since
//
// A checkpoint drops what came before the one before it: should it turn out to be damaged, the log
// steps back, where that is little enough to have been kept. Where something happened to the states
// that no run can repeat (somebody wrote them, or runs came before the log), the log is *spoiled*:
// nothing can be run again until a checkpoint holds that too. So it is when it grows beyond its
// bounds.
//
// Threads: a value; nothing suspends.
// Cost: O(log runs) a call; it keeps a copy of each run's frame, kBytesMax of them at most.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/resources/owner_use.h"
#include "controller/resources/slices.h"
#include "protocol/messages.h"

namespace gangway {

class RunLog {
 public:
  static constexpr size_t kRunsMax = size_t{1} << 16;
  static constexpr size_t kBytesMax = size_t{64} << 20;
  static constexpr size_t kBeforeBytesMax = size_t{4} << 20;  // Of what it can step back over.

  struct Entry {
    RunFrame frame;
    bool is_told = false;       // Its client knows its result, which was good.
    bool is_under_way = false;  // It was submitted, and has not ended.
    bool is_cancelled = false;  // Its client has asked for its end.
    StateVersion version;       // That it has made; 0: none yet, or it makes none.
  };

  // Empty. It begins from the states of version `base` (0: the first values), and can't step back
  // behind them. `held`: of its owner, which bounds it too.
  RunLog() = default;
  explicit RunLog(OwnerUse::Hold held, StateVersion base = {})
      : held_(std::move(held)), base_(base) {}

  // What it would take of a log.
  static size_t bytes_of(const RunFrame& frame);
  // Behind all others. False: there is no room for it, and the log is as before.
  bool add(const RunFrame& frame);
  // Null: it is not in the log. By the client's name.
  Entry* find(RunId run);
  void remove(RunId run);
  void clear();
  std::list<Entry>& entries() { return entries_; }
  const std::list<Entry>& entries() const { return entries_; }

  // Nothing can be run again until there is a checkpoint of this version, or a later one.
  void spoil(StateVersion until, const std::string& why);
  // There is a checkpoint of this version. Returns runs before it that failed as a host was lost
  // and were to be run again: they commit nothing, and the states that they read are past.
  std::vector<RunId> written(StateVersion version);
  // The checkpoint of its base can't be read: it begins from the one before it. False: it can't.
  bool step_back();
  // From which version's states the log begins.
  StateVersion base() const { return base_; }
  // Why it can't be run again; none: it can. O(runs).
  std::optional<std::string> why_not() const;

 private:
  void forget_before();

  std::list<Entry> entries_;  // In the order of their submission.
  std::map<RunId, std::list<Entry>::iterator> by_run_;
  size_t bytes_ = 0;
  OwnerUse::Hold held_;
  StateVersion base_;
  // The base before it, and what was run between the two; none: it can't be gone back to.
  std::optional<StateVersion> before_;
  std::list<Entry> before_entries_;
  size_t before_bytes_ = 0;
  std::optional<StateVersion> spoiled_until_;
  std::string spoiled_why_;
};

}  // namespace gangway
