// SharedStateTable: states of one client's program that other clients read, a version at a time.
//
// A version is the number of runs that have committed on the slice in which the states are named.
// A read asks for some states of one version. They are copied into the reader's memory between two
// runs of the program: all host transfers of the read take their tickets there, on all hosts, so
// that they are of one version while the runs go on. A run waits for the transfers before it and
// for nothing else; transfers take no memory on devices.
//
// Choice of that sequence point: the latest version is read at the next one at which no other read
// of the latest takes place, so that a run waits for one such read at most. Version k is read after
// the k-th run that may commit, as far as is known when that sequence point comes. When a run
// before it fails after all, the read waits for k again. It misses k, and reports that to the
// reader, only if runs that do not depend on the failed one had their tickets by then and go beyond
// k.
//
// When a host is lost the program may be brought back. Reads whose transfers are under way, or
// that only wait until runs before them commit, are then made again. If the host had not reported
// its transfers as done it may still carry them out: then the reader asks again, with other
// memory.
//
// Rights: clients of the program's owner may read, and those of owners that allow_read() named. To
// all others it looks as if the program did not exist.
//
// Threads: the reactor's thread; read() suspends, nothing else does.
// Ownership: the constructor's arguments outlive it, and a call of read() ends before it does.
// Errors: read() returns kInvalid for states that the program does not have; kUnavailable once the
// program has ended, a host of it is lost that is not brought back, or recovery has given the
// program up; kOverloaded if the reader waits for too many versions already, or the program is
// brought back behind a restart of its controller. The result says with the error whether hosts may
// still write to the reader's memory.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/programs/program_record.h"
#include "controller/scheduler/host_transfers.h"
#include "controller/scheduler/runs.h"
#include "controller/scheduler/states_read.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class SharedStateTable {
 public:
  // Reads of one reader whose versions have not come.
  static constexpr size_t kReadsMax = 64;
  static constexpr size_t kReadersMax = ProgramRecord::kReadersMax;  // Owners that a program names.

  SharedStateTable(SliceTable& slices, RunTable& runs, HostTransfers& transfers,
                   const ProgramNames& names)
      : slices_(slices), runs_(runs), transfers_(transfers), names_(names) {}

  // Lets `owner` read the states that are named in this slice, as long as the slice lives; "*":
  // everyone. A client can let others read only one of its slices.
  void allow_read(SessionId session, SliceId slice, const std::string& owner);

  // The program is brought back behind a restart of its controller: it may have no devices yet, and
  // its states are not there. Until resumed(), or its end, clients that may read it get
  // kOverloaded.
  void begin_resuming(SessionId program, std::set<std::string> readers);
  void resumed(SessionId program) { resuming_.erase(program); }

  struct Opened {
    SliceId slice;
    std::map<std::string, Type> states;
  };
  // `program`: "owner/name", or the name of a program of the reader's owner. kInvalid if it has no
  // states that the reader may read; kOverloaded if it will have them once it is brought back.
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
    bool is_counted = true;  // False for the controller's own reads, for a checkpoint.
  };
  // Suspends until the version lies in the reader's memory, or it is known that it never will, or
  // `stop` is requested.
  StatesRead read(SessionId reader, Request request, const StopToken& stop = {});

  // The run table calls these: a sequence point comes, a run has ended.
  void at_sequence_point(const SequencePoint& point);
  void run_ended(const RunRecord& run, bool committed);
  void slice_gone(SliceId slice);
  // Ends the controller's own reads of the slice that have no sequence point yet, to be asked for
  // again: the slice may have other states than before.
  void withdraw(SliceId slice);
  // A host of the slice is lost, and its program is being brought back: transfers are made again.
  void slice_moves(SliceId slice);
  // The slice's states are there again, or its program has caught up or was given up (SliceRecord).
  void slice_is_back(SliceId slice);
  void session_closed(SessionId reader);
  size_t under_way() const { return reads_.size(); }

 private:
  // A call of read().
  struct Read {
    SessionId reader;
    Request request;
    bool is_taken = false;   // Its transfers have their tickets.
    StateVersion version;    // Committed when it was taken, plus runs of `ahead` that have since.
    std::set<RunId> ahead;   // Runs before its sequence point that may still commit.
    uint64_t tenant = 0;     // HostTransfers' id for its memory.
    size_t transfers = 0;    // Host transfers under way.
    bool again = false;      // The transfers are void, and are to be made again.
    bool is_settled = true;  // No lost host may still write to its memory.
    bool is_withdrawn = false;         // It gets no sequence point any more.
    std::optional<StateVersion> past;  // It came too late: runs that have begun lead to this one.
    std::optional<Error> error, of_transfers;
    bool has_ended = false;
    WaitQueue changed;

    bool waits() const { return !is_taken && !past && !is_withdrawn && !error && !of_transfers; }
    uint64_t expected() const { return version.value + ahead.size(); }
  };
  using ReadPtr = std::shared_ptr<Read>;

  bool may_read(SessionId reader, SessionId program, const std::set<std::string>& readers) const;
  SliceRecord* shared_slice(SessionId reader, SessionId program, const std::string& text);
  const SliceRecord& readable(SessionId reader, SliceId slice) const;
  const SliceRecord& require_may_ask(SessionId reader, const Request& request) const;
  static void require_fits(const SliceRecord& slice, const Request& request);
  void take(const ReadPtr& read, const SliceRecord& slice, const SequencePoint& point);
  void fail(Read& read, const Error& why);
  static StatesRead outcome(const Read& read);
  void settle(Read& read);
  std::vector<ReadPtr> reads_of(SliceId slice) const;

  SliceTable& slices_;
  RunTable& runs_;
  HostTransfers& transfers_;
  const ProgramNames& names_;
  std::map<SessionId, std::set<std::string>> resuming_;  // Owners that may read each program.
  std::list<ReadPtr> reads_;  // In the order in which they were asked for.
  // The run before which the latest version was read last.
  std::map<SliceId, RunId> served_before_;
};

}  // namespace gangway
