// SharedSegment: memory that several processes of one machine map, and that the system frees when
// the last of them has ended.
//
// It is an anonymous memory file. Another process opens it through /proc/<pid>/fd/<fd>, so it has
// no name in /dev/shm and is gone with its last process, whoever is killed. It is sealed against
// shrinking: a peer can't pull pages away.
//
// Invariants: data() is aligned to 64 bytes and starts zeroed.
// Threads: any.
// Ownership: the creator must keep its segment until the peer has opened it; afterwards each
// mapping lives on its own. Works inside one process too.
// Errors: open(): kUnavailable when there is no shared memory with that process (another machine,
// another pid namespace or user, or it ended), kInvalid when the descriptor does not fit what is
// there.
//
// Example:
//   SharedSegment mine = SharedSegment::create(1 << 20);
//   SharedSegment theirs = SharedSegment::open(mine.descriptor());  // In another process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gangway {

// Identifies a segment for a peer that opens it, in plain numbers for the wire.
struct SegmentDescriptor {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t bytes = 0;  // Size of data().
  uint64_t token = 0;  // Random: tells it from another file with the same number.
};

class SharedSegment {
 public:
  static SharedSegment create(size_t bytes);
  static SharedSegment open(const SegmentDescriptor& descriptor);
  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  const SegmentDescriptor& descriptor() const { return descriptor_; }
  std::byte* data() const { return data_; }
  size_t size() const { return descriptor_.bytes; }
  // Returns the pages that lie wholly in the range to the system, for all processes that map them.
  // They then read as zeros, and take memory again once they are written. Does nothing if the
  // system can't.
  void drop_pages(int64_t offset, int64_t bytes) const;

 private:
  SharedSegment(int fd, SegmentDescriptor descriptor);
  void map(int fd);

  SegmentDescriptor descriptor_;
  int owned_fd_ = -1;  // Only the creator has one; an opened segment needs none.
  std::byte* data_ = nullptr;
};

}  // namespace gangway
