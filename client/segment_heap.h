// SegmentHeap: the client's one shared segment, and who uses which part of it.
//
// Bulk data goes through it, so that an executor maps a client once. It has its full size from the
// start, as address space: pages that were never touched cost nothing.
//
// Invariants: parts are aligned to 64 bytes and do not overlap. First fit, neighbours merge.
// Threads: any.
// Ownership: a Part gives its bytes back when it dies; it keeps the heap alive.
// Errors: kOverloaded when no hole is large enough.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/os/shared_segment.h"

namespace gangway::internal {

class SegmentHeap : public std::enable_shared_from_this<SegmentHeap> {
 public:
  explicit SegmentHeap(int64_t bytes);

  class Part {
   public:
    Part(std::shared_ptr<SegmentHeap> heap, int64_t offset, int64_t bytes)
        : heap_(std::move(heap)), offset_(offset), bytes_(bytes) {}
    ~Part() { heap_->release(offset_); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    std::byte* data() const { return heap_->segment_.data() + offset_; }
    const SegmentDescriptor& segment() const { return heap_->segment_.descriptor(); }
    int64_t offset() const { return offset_; }
    int64_t bytes() const { return bytes_; }

   private:
    std::shared_ptr<SegmentHeap> heap_;
    int64_t offset_;
    int64_t bytes_;
  };
  std::shared_ptr<Part> take(int64_t bytes);
  int64_t used() const;

 private:
  void release(int64_t offset);

  SharedSegment segment_;
  mutable std::mutex mutex_;
  std::map<int64_t, int64_t> used_;  // Offset to size.
};

}  // namespace gangway::internal
