// SharedStates: states of another program, which its owner lets this client read; Snapshot: some of
// them as they all were after one run.
//
// With them an evaluator follows a trainer without stopping it. A version is the number of runs
// that have committed on the trainer's slice since it was allocated; Slice::allow_read() says which
// slice it is. A snapshot is taken between two runs, on all hosts alike: the trainer's later runs
// wait until its devices have copied what was asked for into memory that this client shares with
// them, and for nothing else.
//
// Example:
//   Client client = connect("127.0.0.1:7070", {.name = "evaluator"});
//   SharedStates trained = client.open_states("alice/pretrain");
//   Slice slice = client.allocate({.devices = 4});
//   Executable evaluate = slice.compile(programs::evaluate(config, mesh));
//   Snapshot next = trained.at(20, slice);  // Returns at once.
//   for (uint64_t version = 20; version <= 1000; version += 20) {
//     Snapshot now = std::exchange(next, trained.at(version + 20, slice));
//     slice.load(now);  // Waits until the trainer has come to it.
//     evaluate.set_position(0);
//     std::cout << version << ": " << evaluate.run()["cross_entropy"].item<float>() << "\n";
//   }
//
// Threads: handles, copyable, safe from any thread.
// Ownership: a snapshot holds its tensors in this process as long as a copy of its handle lives; a
// snapshot that nobody holds any more is not waited for.
// Errors: a snapshot's are thrown where it is waited for: kUnavailable once the program has ended;
// kInvalid for a version that was past when it was asked for, saying how far the program is;
// kOverloaded beyond 64 snapshots of a client that have not come.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/tensor.h"
#include "ir/types/type.h"

namespace gangway {

class Slice;

namespace internal {
class SharedStatesImpl;
class SnapshotImpl;
}  // namespace internal

class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<const internal::SnapshotImpl> impl);
  std::vector<std::pair<std::string, Type>> states() const;
  bool done() const;  // Whether it is here, or never will be; waits for nothing.
  void wait() const;  // Throws why it will never be here.
  // version() says which it is, read() returns a whole tensor of it. Both wait. kInvalid when it
  // has none of this name.
  uint64_t version() const;
  HostTensor read(const std::string& name) const;

  const internal::SnapshotImpl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const internal::SnapshotImpl> impl_;
};

class SharedStates {
 public:
  explicit SharedStates(std::shared_ptr<const internal::SharedStatesImpl> impl);
  // The states that there were when they were opened.
  std::vector<std::pair<std::string, Type>> states() const;

  // The version that comes behind so many runs. Returns at once: a client that follows a program
  // asks for a version before it comes, since none is kept that nobody asked for. `names`: the
  // states that are wanted; none: all.
  Snapshot at(uint64_t version, const std::vector<std::string>& names = {}) const;
  // The states that programs compiled on this slice have, which Slice::load() wants.
  Snapshot at(uint64_t version, const Slice& slice) const;
  // The version behind the runs that have begun. If several clients ask for the latest, they get it
  // one after another, so that each run waits for one copy at most.
  Snapshot latest(const std::vector<std::string>& names = {}) const;
  Snapshot latest(const Slice& slice) const;

 private:
  std::shared_ptr<const internal::SharedStatesImpl> impl_;
};

}  // namespace gangway
