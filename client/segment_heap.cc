#include "client/segment_heap.h"

#include "runtime/base/align.h"
#include "runtime/base/error.h"
#include "runtime/base/units.h"

namespace gangway::internal {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

std::shared_ptr<SegmentHeap::Part> SegmentHeap::take(int64_t bytes) {
  const int64_t size = std::max(kAlignment, align_up(bytes, kAlignment));
  std::lock_guard lock(mutex_);
  if (current_ == nullptr) current_ = std::make_shared<Segment>(segment_bytes_);
  std::map<int64_t, int64_t>& used = current_->used;
  int64_t hole = 0;
  auto at = used.begin();
  while (at != used.end() && at->first - hole < size) {
    hole = at->first + at->second;
    ++at;
  }
  if (segment_bytes_ - hole < size) {
    throw Error(
        ErrorKind::kOverloaded,
        cat("client: no room for ", format_bytes(static_cast<uint64_t>(bytes)), " among ",
            format_bytes(static_cast<uint64_t>(segment_bytes_)), " of puts and gets under way"),
        {}, "wait for puts and gets to end, or let snapshots go");
  }
  used.emplace_hint(at, hole, size);
  used_ += size;
  return std::make_shared<Part>(shared_from_this(), current_, hole, bytes);
}

int64_t SegmentHeap::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

void SegmentHeap::release(const std::shared_ptr<Segment>& of, int64_t offset, bool is_returned) {
  std::lock_guard lock(mutex_);
  const auto part = of->used.find(offset);
  used_ -= part->second;
  of->used.erase(part);
  if (!is_returned && of == current_) current_ = nullptr;
  if (of != current_) drop_unused_pages(*of);
}

void SegmentHeap::drop_unused_pages(const Segment& segment) {
  int64_t hole = 0;
  for (const auto& [offset, size] : segment.used) {
    segment.memory.drop_pages(hole, offset - hole);
    hole = offset + size;
  }
  segment.memory.drop_pages(hole, static_cast<int64_t>(segment.memory.size()) - hole);
}

}  // namespace gangway::internal
