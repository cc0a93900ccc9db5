#include "client/bulk.h"

#include <algorithm>
#include <optional>

#include "client/session.h"
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
  std::vector<std::pair<int64_t, int64_t>> unused;
  {
    std::lock_guard lock(mutex_);
    const auto part = of->used.find(offset);
    used_ -= part->second;
    of->used.erase(part);
    if (!is_returned && of == current_) current_ = nullptr;
    if (of != current_) unused = holes_of(*of);
  }
  // Pages are dropped without the mutex, since that takes long. A segment that was given up hands
  // out none of them.
  for (const auto& [begin, bytes] : unused) of->memory.drop_pages(begin, bytes);
}

std::vector<std::pair<int64_t, int64_t>> SegmentHeap::holes_of(const Segment& segment) {
  std::vector<std::pair<int64_t, int64_t>> holes;
  int64_t hole = 0;
  for (const auto& [offset, size] : segment.used) {
    holes.emplace_back(hole, offset - hole);
    hole = offset + size;
  }
  holes.emplace_back(hole, static_cast<int64_t>(segment.memory.size()) - hole);
  return holes;
}

HostTransferDoneFrame Bulk::transfer(const HostTransferFrame& frame, const PartPtr& part) {
  const auto ended = std::make_shared<std::optional<HostTransferDoneFrame>>();
  HostTransferFrame whole = frame;
  whole.at = {part->segment(), part->offset(), part->bytes()};
  take_place();
  send(std::move(whole), part, [ended](const HostTransferDoneFrame& done) { *ended = done; });
  session_.notify.wait([&] { return ended->has_value(); });
  return **ended;
}

Bulk::PartPtr Bulk::get(const HostTransferFrame& frame, int64_t bytes) {
  while (true) {
    PartPtr part = heap().take(bytes);
    const HostTransferDoneFrame ended = transfer(frame, part);
    if (ended.comes_again) continue;
    if (ended.error) throw Error(*ended.error);
    return part;
  }
}

void Bulk::put(const HostTransferFrame& frame, const PartPtr& part) {
  const HostTransferDoneFrame ended = transfer(frame, part);
  if (ended.error) throw Error(*ended.error);
}

void Bulk::take_place() {
  session_.notify.wait([this] {
    if (under_way_ >= transfers_max_) return false;
    ++under_way_;
    return true;
  });
}

void Bulk::give_back_place() {
  session_.notify.change([this] { --under_way_; });
}

void Bulk::send(HostTransferFrame frame, PartPtr part, TransferDone done) {
  part->lend();
  session_.transfer(std::move(frame), [this, part = std::move(part), done = std::move(done)](
                                          const HostTransferDoneFrame& ended) mutable {
    if (ended.is_settled) part->returned();
    // The waiting thread then drops the last reference, before it takes another part.
    part.reset();
    session_.notify.change([&] {
      done(ended);
      --under_way_;
    });
  });
}

void Bulk::free_on_thread(PartPtr part) {
  if (part == nullptr || has_ended_) return;
  if (freeing_ == nullptr)
    freeing_ = std::make_unique<Background>(*session_.notify.home, "client/freeing", 1);
  static_cast<void>(freeing_->start([part = std::move(part)] {}));
}

void Bulk::end() {
  has_ended_ = true;
  freeing_.reset();
}

}  // namespace gangway::internal
