// CheckpointStore: an executor's part in the checkpoints that its controller keeps: memory in which
// hosts gather states, and the files that are written from it and read into it.
//
// A checkpoint is a folder of a CheckpointDir (checkpoint/checkpoint_dir.h), in the safetensors
// layout; an incomplete one never has a name.
//
// Threads: the reactor's; files are written and read on a thread of its own. write(), read() and
// destruction suspend; destruction breaks off the work under way within a piece of kPieceBytes.
// Ownership: segments live until they are closed or the store is destroyed; a segment whose file is
// being written lives until the writing has ended.
// Errors: kInvalid for a request that does not fit its segment or the bounds below, and for files
// with other contents than asked for; kOverloaded beyond the number of segments below; errors of
// the disk as in runtime/base/durable_file.h; kCancelled when the store is destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/checkpoint_files.h"
#include "runtime/fibers/background.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

class CheckpointStore {
 public:
  // Limit for all owners together; the controller bounds how many segments one owner has.
  static constexpr size_t kSegmentsMax = 512;
  static constexpr uint64_t kSegmentBytesMax = uint64_t{1} << 44;
  static constexpr size_t kTensorsMax = size_t{1} << 20;
  static constexpr size_t kPieceBytes = size_t{16} << 20;
  static constexpr int64_t kFileBytes = int64_t{5}
                                        << 30;  // Tensors are dealt to files of this size or so.

  explicit CheckpointStore(Reactor& reactor)
      : freeing_(reactor, "segments", 1), background_(reactor, "checkpoints", 1) {}
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;

  struct Segment {
    uint64_t number = 0;
    SegmentDescriptor descriptor;
  };
  Segment make_segment(uint64_t bytes);
  void close_segment(uint64_t number);
  size_t segments() const { return segments_.size(); }
  void write(uint64_t segment, CheckpointFiles files);
  // Returns the tensors that are missing, of those that may be.
  std::vector<std::string> read(uint64_t segment, CheckpointFiles files);

 private:
  std::shared_ptr<const SharedSegment> find(uint64_t segment) const;

  std::map<uint64_t, std::shared_ptr<const SharedSegment>> segments_;
  uint64_t last_ = 0;
  const std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  Background freeing_;
  Background background_;
};

}  // namespace gangway
