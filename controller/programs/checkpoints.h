// Checkpoints: the states of programs, in files that the cluster keeps by itself while they train.
//
//   version k comes -> its states are copied into memory of one executor -> it writes the files
//
// The states are copied as for a client that reads another's states: in one version, between two
// runs, which wait for the copies and not for the disk. A program has one checkpoint under way at a
// time; versions that come meanwhile are passed over. If a checkpoint can't be written, the user is
// warned and training goes on.
//
// The memory is held for a short while only: from a few versions before the one to keep
// (kAheadVersions, or as many as take kAheadNs) until its files are written. An owner has a bounded
// number of segments on a host at a time; its other programs wait for one. If a program had no
// segment when its version came, the next version is kept, instead of the next multiple.
//
// The segment's layout is made before the version comes. If the states change meanwhile,
// states_changed() withdraws the waiting read, and the layout is made anew.
//
// Files lie in FOLDER/OWNER/PROGRAM/step-<number> (checkpoint/checkpoint_dir.h). Numbers are
// versions, counted from RecoveryOptions::first. Tensors have the names of Slice::state_tensors():
// each layer of a stack is a tensor of its own. The files do not depend on meshes. They outlive the
// program; files that an earlier program of the same name left there are set aside, in PROGRAM~1,
// PROGRAM~2 ..., and stay until somebody removes them.
//
// Threads: the reactor's; try_memory(), keep() and restore() suspend, nothing else does. A fiber
// for each slice.
// Ownership: the constructor's arguments outlive it.
// Errors: keep() throws kInvalid for options beyond their bounds, without a folder, for a slice
// without states and for a second slice of a program, and the error with which a slice was given
// up. restore(): kInvalid for a version without a checkpoint, or whose files have other tensors;
// kUnavailable when a host is lost.
// Cost: the states' bytes in memory of one executor's machine while a checkpoint is written or
// restored.
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

#include "controller/programs/shared_tables.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"
#include "runtime/observe/log.h"

namespace gangway {

class ProgramTable;

class Checkpoints {
 public:
  // How early a program gets memory for a version: the larger one holds.
  static constexpr uint64_t kAheadVersions = 16;
  static constexpr int64_t kAheadNs = 100'000'000;
  // Segments of one owner on one host to write from, and as many to restore from.
  static constexpr int kSegmentsOfOwnerMax = 16;
  // Folders of one owner's programs, with those of programs that have ended.
  static constexpr size_t kFoldersOfOwnerMax = 1024;

  using Part = SharedStateTable::Part;  // A whole state, in an executor's segment.
  struct Options {
    std::string folder;  // An absolute path. Empty: there is no folder.
    Logger log;
  };
  Checkpoints(Reactor& reactor, SharedTables& tables, ProgramTable& programs, Options options);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;

  // Throws the error of a host of the slice that has no memory for its states now.
  void try_memory(SessionId session, SliceId slice);
  // Throws kOverloaded if the program keeps no checkpoints yet and its owner has kFoldersOfOwnerMax
  // folders.
  void require_room_for_folder(SessionId session) const;
  // From now on a checkpoint of this slice's states is written at each multiple of `every`
  // versions, the next one first. When called again, the new options hold after the checkpoint that
  // is under way.
  void keep(SessionId session, SliceId slice, RecoveryOptions options);
  // The newest version of the slice's states that is on the disk.
  std::optional<StateVersion> newest(SliceId slice) const;
  // The number, as in its folder, of the newest checkpoint of the session's slices. None: there is
  // no checkpoint.
  std::optional<StateVersion> newest_number_of(SessionId session) const;
  // Writes all states of the program, wherever they lie now, as that version's checkpoint has them,
  // behind the runs that were submitted before and ahead of later ones; the slice has that version
  // then. A state that was placed at that version or later, and is not in the checkpoint, stays as
  // installing its plan has left it. With version 0 this holds for all states: nothing is copied.
  void restore(SliceId slice, StateVersion version);
  // The program's versions whose files lie in the folder now, ascending, whoever wrote them.
  std::vector<StateVersion> on_disk(SessionId session) const;
  // `report` is called for each version that is on the disk, and must not suspend.
  void on_written(std::function<void(SliceId, StateVersion)> report) {
    on_written_ = std::move(report);
  }
  void slice_gone(SliceId slice);
  // The slice has other states than before.
  void states_changed(SliceId slice);
  // A run of this session ends, and may have made a version.
  void run_ends(SessionId session) {
    if (!far_.empty()) look_whether_near(session);
  }
  void slice_is_back(SliceId slice);  // It is not moving any more (SliceRecord::is_moving).
  // Number of slices that keep checkpoints.
  size_t size() const { return kept_.size(); }
  // Number of checkpoints that are being written to the disk.
  size_t under_way() const { return under_way_; }
  // Begins no more checkpoints; those that are being written are completed.
  void begin_no_more() { is_ending_ = true; }

  // Turns a text into a name in a file system, with %XX for all but letters, digits, '-' and '_'.
  // Different texts have different names.
  static std::string escaped(const std::string& text);

 private:
  struct Kept;
  using KeptPtr = std::shared_ptr<Kept>;
  class Memory;
  enum class Use : uint8_t { kWrite, kRestore };
  using SegmentsKey = std::tuple<HostId, std::string, Use>;  // Host, owner and use.
  struct Layout {
    uint64_t bytes = 0;
    std::vector<Part> parts;
    std::vector<StoredTensor> tensors;
    std::vector<size_t>
        tensors_end;  // For each part, the end of its tensors; they begin at the last part's.
  };
  static Layout lay_out(const SliceRecord& slice);
  // Marks the tensors that a checkpoint of that version may lack.
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
  // "owner/program", each escaped. Empty if the session is closed.
  std::string place_of(SessionId session) const;
  bool is_full(const SegmentsKey& of_whom) const;
  void put_states(const SliceRecord& slice, const std::vector<Part>& parts,
                  const SegmentDescriptor& from);
  SliceRecord& at(SliceId slice);
  uint64_t bytes_max_of(SessionId session) const;
  KeptPtr kept_of(SessionId session) const;  // Null if the session keeps no checkpoints.
  void drop_given_up(SessionId session);

  Reactor& reactor_;
  SharedTables& tables_;
  ProgramTable& programs_;
  const Options options_;
  std::function<void(SliceId, StateVersion)> on_written_;
  std::map<SliceId, KeptPtr> kept_;
  std::map<SessionId, KeptPtr> far_;  // Slices whose next version to keep is not near.
  std::map<SegmentsKey, int> segments_;
  WaitQueue segment_closed_;
  size_t under_way_ = 0;
  bool is_ending_ = false;
  FiberGroup fibers_;
};

}  // namespace gangway
