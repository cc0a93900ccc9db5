#include "runtime/os/landing_log.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr size_t kTextBytesMax = 4096;

}  // namespace

void LandingLog::begins(uint64_t request, uint64_t tenant, const Bytes& at) {
  if (at.bytes <= 0) return;
  const std::lock_guard lock(mutex_);
  const uint64_t segment = at.segment.token;
  const int64_t end = at.offset + at.bytes;
  tenants_[{request, {segment, at.offset}}] = tenant;
  auto next = held_.lower_bound({segment, at.offset});
  if (next != held_.begin()) {  // An earlier range keeps its bytes around these.
    const auto before = std::prev(next);
    if (before->first.first == segment && before->second.end > at.offset) {
      const Held whole = std::exchange(before->second, {at.offset, before->second.tenant});
      if (whole.end > end) held_[{segment, end}] = whole;
    }
  }
  while (next != held_.end() && next->first.first == segment && next->first.second < end) {
    const Held other = next->second;
    next = held_.erase(next);
    if (other.end > end) held_[{segment, end}] = other;
  }
  held_[{segment, at.offset}] = {end, tenant};
}

void LandingLog::writes(const std::string& device, uint64_t request, const Bytes& at) {
  if (at.bytes <= 0) return;
  const std::lock_guard lock(mutex_);
  const uint64_t segment = at.segment.token;
  const auto own = tenants_.find({request, {segment, at.offset}});
  if (own == tenants_.end()) return;  // A test sent the request to a host without a controller.
  auto held = held_.upper_bound({segment, at.offset});
  if (held != held_.begin()) --held;
  for (; held != held_.end() && held->first < Place{segment, at.offset + at.bytes}; ++held) {
    if (held->first.first != segment || held->second.end <= at.offset) continue;
    if (held->second.tenant == own->second || broken_.size() >= kTextBytesMax) continue;
    broken_ += cat("device ", device, " wrote ", at.bytes, " bytes at ", at.offset,
                   " of a segment for request ", request, ": those at ", held->first.second,
                   " were handed to transfer ", held->second.tenant, " meanwhile\n");
  }
}

void LandingLog::offers(const std::string& plan, const std::vector<std::byte>& offer) {
  const std::lock_guard lock(mutex_);
  const std::string bytes(reinterpret_cast<const char*>(offer.data()), offer.size());
  const auto [before, is_new] = offered_.try_emplace(bytes, plan);
  if (is_new || broken_.size() >= kTextBytesMax) return;
  broken_ += cat("memory for links was offered for ", plan, ": it was offered for ", before->second,
                 " before, whose hosts may write there still\n");
}

std::string LandingLog::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

}  // namespace gangway
