#include "client/segment_heap.h"

#include "runtime/base/align.h"
#include "runtime/base/error.h"
#include "runtime/base/units.h"

namespace gangway::internal {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

SegmentHeap::SegmentHeap(int64_t bytes)
    : segment_(SharedSegment::create(static_cast<size_t>(bytes))) {}

std::shared_ptr<SegmentHeap::Part> SegmentHeap::take(int64_t bytes) {
  const int64_t size = std::max(kAlignment, align_up(bytes, kAlignment));
  std::lock_guard lock(mutex_);
  int64_t hole = 0;
  auto at = used_.begin();
  while (at != used_.end() && at->first - hole < size) {
    hole = at->first + at->second;
    ++at;
  }
  if (static_cast<int64_t>(segment_.size()) - hole < size) {
    throw Error(ErrorKind::kOverloaded,
                cat("client: no room for ", format_bytes(static_cast<uint64_t>(bytes)), " among ",
                    format_bytes(segment_.size()), " of puts and gets under way"),
                {}, "wait for puts and gets to end, or let host arrays go");
  }
  used_.emplace_hint(at, hole, size);
  return std::make_shared<Part>(shared_from_this(), hole, bytes);
}

int64_t SegmentHeap::used() const {
  std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [offset, size] : used_) total += size;
  return total;
}

void SegmentHeap::release(int64_t offset) {
  std::lock_guard lock(mutex_);
  used_.erase(offset);
}

}  // namespace gangway::internal
