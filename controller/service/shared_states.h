// SharedStateTable: states of one client's program that other clients read, a version at a time.
//
// A version is the number of runs that have committed on the slice in which the states are named.
// What somebody asks for, some states of one version, is copied into memory of the reader's between
// two runs of the program: all its copies take their tickets there, on whatever hosts, so that they
// are of one version while the runs go on. A run waits for the copies before it and for nothing
// else; they take no memory on devices.
//
// Which place that is: the latest is read at the next one at which nobody else reads the latest, so
// that a run waits for one such copy at most. Version k is read behind the k-th run that may
// commit, as far as is known when that place comes. When a run before it fails after all, k is
// waited for again. It is missed, and the reader told, only where runs that do not depend on the
// one that failed had their tickets by then and go beyond k.
//
// When a host is lost the program may be brought back; what was read, but for runs that had not
// committed, is then read again. Where the host had not said that its copies are done it may still
// make them: then the reader asks again, with other memory.
//
// Who may read: clients of the program's owner, and of the owners that allow_read() named. For all
// others the program does not exist.
//
// Threads: the reactor's thread; read() suspends, nothing else does.
// Ownership: what it is given outlives it, and a call of read() ends before it does.
// Errors: read() returns kInvalid for what the program has not; kUnavailable once the program has
// ended, a host of it is lost that is not brought back, or recovery has given the program up;
// kOverloaded where the reader waits for too much already. With the error it says whether hosts may
// still write to the reader's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/copies/copies.h"
#include "controller/copies/states_read.h"
#include "controller/recovery/program_record.h"
#include "controller/scheduler/runs.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class SharedStateTable {
 public:
  // One reader may ask for so many versions that have not come.
  static constexpr size_t kReadsMax = 64;
  static constexpr size_t kReadersMax = ProgramRecord::kReadersMax;  // Owners that a program names.

  struct Clients {
    // The oldest of that owner and name.
    std::function<std::optional<SessionId>(const std::string& owner, const std::string& name)> find;
    std::function<std::string(SessionId)> owner_of;
  };
  SharedStateTable(SliceTable& slices, RunTable& runs, CopyTable& copies, Clients clients)
      : slices_(slices), runs_(runs), copies_(copies), clients_(std::move(clients)) {}

  // `owner` may read the states that are named in this slice, as long as it lives; "*": everyone. A
  // client lets others read one slice of its.
  void allow_read(SessionId session, SliceId slice, const std::string& owner);

  struct Opened {
    SliceId slice;
    std::map<std::string, Type> states;
  };
  // `program`: "owner/name", or a name of the reader's own. kInvalid where it has none to read.
  Opened open(SessionId reader, const std::string& program);

  struct Part {
    std::string name;
    int64_t offset = 0, bytes = 0;  // In the reader's segment.
  };
  struct Request {
    SliceId slice;
    std::optional<StateVersion> version;  // None: the latest.
    bool or_later = false;                // If that is past, the first one that comes.
    SegmentDescriptor segment;
    std::vector<Part> parts;
    bool is_counted = true;  // Else it is the controller's own, for a checkpoint.
  };
  // Suspends until the version lies there, or never will, or until a request to stop.
  StatesRead read(SessionId reader, Request request, const StopToken& stop = {});

  // What the run table tells.
  void at_place(const OrderPlace& place);
  void run_ended(const RunRecord& run, bool committed);
  void slice_gone(SliceId slice);
  // Of the controller's own reads of the slice, those that have no place among the runs are to be
  // asked for again: its states may be others than they were.
  void withdraw(SliceId slice);
  // A host of it is lost, and it is being brought back: what is copied now comes again.
  void slice_moves(SliceId slice);
  // It is back, or nobody waits any more for what comes again: see SliceRecord.
  void slice_is_back(SliceId slice);
  void session_closed(SessionId reader);
  size_t under_way() const { return reads_.size(); }

 private:
  // A call of read().
  struct Read {
    SessionId reader;
    Request request;
    bool is_taken = false;   // Its copies have their tickets.
    StateVersion version;    // That was committed when it was taken, and what came true of `ahead`.
    std::set<RunId> ahead;   // Runs before its place that may still commit.
    uint64_t tenant = 0;     // Of its memory (CopyTable).
    size_t copies = 0;       // Under way.
    bool again = false;      // What they give is nothing.
    bool is_settled = true;  // No host may still write to its memory that was lost.
    bool is_withdrawn = false;         // It gets no place any more.
    std::optional<StateVersion> past;  // It was; the runs that have begun lead to this one.
    std::optional<Error> error, of_copies;
    bool has_ended = false;
    WaitQueue changed;

    bool waits() const { return !is_taken && !past && !is_withdrawn && !error && !of_copies; }
    uint64_t expected() const { return version.value + ahead.size(); }
  };
  using ReadPtr = std::shared_ptr<Read>;

  bool may_read(SessionId reader, const SliceRecord& slice) const;
  SliceRecord* shared_slice(SessionId reader, SessionId program, const std::string& text);
  const SliceRecord& readable(SessionId reader, SliceId slice) const;
  const SliceRecord& require_may_ask(SessionId reader, const Request& request) const;
  static void require_fits(const SliceRecord& slice, const Request& request);
  void take(const ReadPtr& read, const SliceRecord& slice, const OrderPlace& place);
  void fail(Read& read, const Error& why);
  static StatesRead outcome(const Read& read);
  void settle(Read& read);
  std::vector<ReadPtr> reads_of(SliceId slice) const;

  SliceTable& slices_;
  RunTable& runs_;
  CopyTable& copies_;
  const Clients clients_;
  std::list<ReadPtr> reads_;  // In the order in which they were asked for.
  // Before which run the latest was read last.
  std::map<SliceId, RunId> served_before_;
};

}  // namespace gangway
