// Checkpoints: the states of programs, in files that the cluster keeps by itself while they train.
//
//   version k comes -> its states are copied into memory of one executor -> it writes the files
//
// The copies are those of a client that reads another's states: of one version, taken between two
// runs, which wait for the copies and not for the disk. One checkpoint of a program is under way at
// a time; versions that come meanwhile are passed over. One that can't be written is warned about,
// and training goes on.
//
// The memory is there for a short while only: from a few versions before the one that is to be kept
// (kAheadVersions, or as many as take kAheadNs) until its files are written. An owner has a bounded
// number of segments on a host at a time; its other programs wait for one. Where there was none
// when its version came, the next version is kept, and not the next multiple.
//
// What is copied is laid out before its version comes. So states_changed() withdraws what waits for
// one: it is laid out anew.
//
// Files lie in FOLDER/OWNER/PROGRAM/step-<number> (checkpoint/checkpoint_dir.h), where numbers are
// versions, counted on from RecoveryOptions::first, with the states by the names that
// Slice::state_tensors() has: each layer of a stack is a tensor of its own. They say nothing of
// meshes. They outlive the program; what an earlier program of the same name left there is set
// aside, in PROGRAM~1, PROGRAM~2 ..., and stays until somebody removes it.
//
// Threads: the reactor's; try_memory(), keep() and restore() suspend, nothing else does. A fiber
// for each slice.
// Ownership: what it is given outlives it.
// Errors: keep() throws kInvalid for options beyond their bounds, where there is no folder, for a
// slice without states and for a second slice of a program. restore(): kInvalid for a version that
// there is no checkpoint of, or whose files have other tensors; kUnavailable when a host is lost.
// Cost: the states' bytes in memory of one executor's machine while one is written or restored.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/copies/copies.h"
#include "controller/copies/states_read.h"
#include "controller/resources/planted_bugs.h"
#include "controller/scheduler/runs.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"
#include "runtime/observe/log.h"

namespace gangway {

class Checkpoints {
 public:
  // How early there is memory for a version.
  static constexpr uint64_t kAheadVersions = 16;
  static constexpr int64_t kAheadNs = 100'000'000;
  // Of one owner on one host: to write from, and as many to restore from.
  static constexpr int kSegmentsOfOwnerMax = 16;
  // Folders of one owner's programs, with those of programs that have ended.
  static constexpr size_t kFoldersOfOwnerMax = 1024;

  // A whole state, in an executor's segment.
  struct Part {
    std::string name;
    int64_t offset = 0, bytes = 0;
  };
  struct Read {
    SliceId slice;
    StateVersion version;  // Or the first one that comes later.
    SegmentDescriptor segment;
    std::vector<Part> parts;
  };
  struct Callbacks {
    // Copies them, when that version comes. Suspends.
    std::function<StatesRead(SessionId, const Read&, const StopToken&)> read;
    // Those of this slice that have no place yet are to be asked for again.
    std::function<void(SliceId)> withdraw;
    std::function<std::string(SessionId)> owner_of;
    // "owner/program", each escaped; empty: the session is closed.
    std::function<std::string(SessionId)> place_of;
    // Of files, for all programs of the session's owner.
    std::function<uint64_t(SessionId)> bytes_max_of;
    std::function<void(SessionId, const std::string&)> warn;  // The program's user, and the log.
    std::function<void(SessionId, StateVersion)> written;     // It is on the disk.
  };
  struct Options {
    std::string folder;  // An absolute path; empty: there is none.
    Logger log;
    PlantedControllerBugs planted;
  };
  Checkpoints(Reactor& reactor, HostTable& hosts, SliceTable& slices, RunTable& runs,
              CopyTable& copies, Callbacks callbacks, Options options);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;

  // Throws what keeps the slice's hosts from having memory for its states now.
  void try_memory(SessionId session, SliceId slice);
  // Of a program that keeps none yet: kOverloaded where its owner has kFoldersOfOwnerMax folders.
  void require_room_for_folder(SessionId session) const;
  // From now on a checkpoint of this slice's states is written at each multiple of `every`
  // versions, the next one first. Asked again, the new options hold behind the one under way.
  void keep(SessionId session, SliceId slice, RecoveryOptions options);
  // Of the slice's states that are on the disk, the newest.
  std::optional<StateVersion> newest(SliceId slice) const;
  // The newest one of the session's slices, numbered as its folder is; none: there is none.
  std::optional<StateVersion> newest_number_of(SessionId session) const;
  // Writes all states of the program, wherever they lie now, as that version's checkpoint has them,
  // behind the runs that were submitted before and ahead of later ones; the slice is of that
  // version then. A state that was placed at that version or later, and is not in the checkpoint,
  // is as installing its plan has left it. Version 0 is that of all: nothing is copied.
  void restore(SliceId slice, StateVersion version);
  // Of the program's versions, ascending, those whose files lie in the folder now, whoever wrote
  // them.
  std::vector<StateVersion> on_disk(SessionId session) const;
  // Told of each that is on the disk. Must not suspend.
  void on_written(std::function<void(SliceId, StateVersion)> told) {
    on_written_ = std::move(told);
  }
  void slice_gone(SliceId slice);
  // It has other states than before.
  void states_changed(SliceId slice);
  // A run of this session ends, and may have made a version.
  void run_ends(SessionId session) {
    if (!far_.empty()) look_whether_near(session);
  }
  void slice_is_back(SliceId slice);  // It was moving (SliceRecord).
  // How many slices keep checkpoints.
  size_t size() const { return kept_.size(); }
  // How many are being written to the disk.
  size_t under_way() const { return under_way_; }
  // From now on none is begun; those that are being written are written to their end.
  void begin_no_more() { is_ending_ = true; }

  // A text as a name in a file system, and no two alike: all but letters, digits, '-' and '_' as
  // %XX.
  static std::string escaped(const std::string& text);

 private:
  struct Kept;
  using KeptPtr = std::shared_ptr<Kept>;
  class Memory;
  enum class Use : uint8_t { kWrite, kRestore };
  using SegmentsKey = std::tuple<HostId, std::string, Use>;  // Of an owner on a host.
  struct Layout {
    uint64_t bytes = 0;
    std::vector<Part> parts;
    std::vector<StoredTensor> tensors;
    std::vector<size_t>
        tensors_end;  // By part: its tensors are those before, from the last part's.
  };
  static Layout lay_out(const SliceRecord& slice);
  // What a checkpoint of that version may lack need not be there.
  static void allow_missing(Layout& layout, const SliceRecord& slice, StateVersion version);
  static std::vector<Part> found_parts(const Layout& layout,
                                       const std::vector<std::string>& missing,
                                       StateVersion version);
  void serve(const KeptPtr& kept);
  void wait_until_near(const KeptPtr& kept, const SliceRecord& slice);
  bool is_near(const Kept& kept, const SliceRecord& slice) const;
  void look_whether_near(SessionId session);
  void wait_for_segment(const Kept& kept, const SegmentsKey& of_whom);
  void write(Kept& kept);
  void write_files(Kept& kept, Memory& memory, StateVersion version,
                   std::vector<StoredTensor> tensors);
  bool goes_on_after(const KeptPtr& kept, const Error& why);
  HostId worker(const SliceRecord& slice, Use use) const;
  bool is_full(const SegmentsKey& of_whom) const;
  void put_states(const SliceRecord& slice, const std::vector<Part>& parts,
                  const SegmentDescriptor& from);
  SliceRecord& at(SliceId slice);
  KeptPtr kept_of(SessionId session) const;  // Null: the session keeps none.

  Reactor& reactor_;
  HostTable& hosts_;
  SliceTable& slices_;
  RunTable& runs_;
  CopyTable& copies_;
  const Callbacks callbacks_;
  const Options options_;
  std::function<void(SliceId, StateVersion)> on_written_;
  std::map<SliceId, KeptPtr> kept_;
  std::map<SessionId, KeptPtr> far_;  // Those whose next version is not near.
  std::map<SegmentsKey, int> segments_;
  WaitQueue segment_closed_;
  size_t under_way_ = 0;
  bool is_ending_ = false;
  FiberGroup fibers_;
};

}  // namespace gangway
