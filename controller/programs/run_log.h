// RunLog: the runs that a program has submitted since its newest checkpoint, with its client's
// names, so that they can be run again when a host is lost.
//
//   base, run, run, run ...   the states of version `base`, and all runs since
//
// A new checkpoint drops the runs before the previous checkpoint. The runs between the two are kept
// if they are small enough, so that the log can step back if the new checkpoint is damaged. If the
// states changed in a way that no run can repeat (a client wrote them, or runs came before the
// log), the log is *spoiled*: nothing can be run again until a checkpoint holds that change too. A
// log that grows beyond its bounds is spoiled as well.
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

#include "controller/owners/owner_use.h"
#include "controller/slices/slices.h"
#include "protocol/messages.h"

namespace gangway {

class RunLog {
 public:
  static constexpr size_t kRunsMax = size_t{1} << 16;
  static constexpr size_t kBytesMax = size_t{64} << 20;
  static constexpr size_t kBeforeBytesMax = size_t{4} << 20;  // Runs that it can step back over.

  struct Entry {
    RunFrame frame;
    bool is_reported = false;   // It ended well, and that was reported to its client.
    bool is_under_way = false;  // It was submitted, and has not ended.
    bool is_cancelled = false;  // Its client has asked for its end.
    StateVersion version;       // The version that it has made; 0: none yet, or it makes none.
  };

  // An empty log. It begins from the states of version `base` (0: the first values), and can't step
  // back before them. `held`: memory of the program's owner, whose bound holds for the log too.
  RunLog() = default;
  explicit RunLog(OwnerUse::Hold held, StateVersion base = {})
      : held_(std::move(held)), base_(base) {}

  // Bytes that the run takes in a log.
  static size_t bytes_of(const RunFrame& frame);
  // Adds a run at the end. False: there is no room for it, and the log is as before.
  bool add(const RunFrame& frame);
  // Finds a run by the client's name. Null if it is not in the log.
  Entry* find(RunId run);
  void remove(RunId run);
  void clear();
  std::list<Entry>& entries() { return entries_; }
  const std::list<Entry>& entries() const { return entries_; }

  // Nothing can be run again until there is a checkpoint of this version, or a later one.
  void spoil(StateVersion until, const std::string& why);
  // There is a checkpoint of this version. Returns runs before it that failed when a host was lost
  // and were to be run again: they commit nothing, and the states that they read are past.
  std::vector<RunId> written(StateVersion version);
  // The checkpoint of `base` can't be read, so the log begins from the one before it. False: it
  // can't.
  bool step_back();
  // The version of the states from which the log begins.
  StateVersion base() const { return base_; }
  // Why the runs can't be run again. None: they can. O(runs).
  std::optional<std::string> why_not() const;

 private:
  void forget_before();

  std::list<Entry> entries_;  // In the order of their submission.
  std::map<RunId, std::list<Entry>::iterator> by_run_;
  size_t bytes_ = 0;
  OwnerUse::Hold held_;
  StateVersion base_;
  // The base before `base_`, and the runs between the two. None: the log can't step back.
  std::optional<StateVersion> before_;
  std::list<Entry> before_entries_;
  size_t before_bytes_ = 0;
  std::optional<StateVersion> spoiled_until_;
  std::string spoiled_why_;
};

}  // namespace gangway
