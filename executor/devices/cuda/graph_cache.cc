#include "executor/devices/cuda/graph_cache.h"

#include <algorithm>
#include <utility>

namespace gangway::cuda {

GraphCache::~GraphCache() {
  for (const auto& [hash, entry] : entries_) {
    if (entry.graph) driver_.destroy(entry.graph);
  }
  for (const Retired& retired : retired_) {
    driver_.destroy(retired.graph);
    driver_.destroy(retired.done);
  }
}

uint64_t GraphCache::Sightings::see(uint64_t hash, uint64_t now) {
  if (newer.size() >= kMax) older = std::exchange(newer, {});
  const auto before = older.find(hash);
  return std::exchange(
      newer.emplace(hash, before == older.end() ? 0 : before->second).first->second, now);
}

uint64_t GraphCache::hash_of(const GraphKey& key) {
  uint64_t hash = key.owner.serial * 0x9E3779B97F4A7C15u;
  const auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001B3u; };
  mix(key.begin);
  mix(key.end);
  mix(key.mesh_device);
  for (const std::byte* base : key.bases) mix(reinterpret_cast<uintptr_t>(base));
  return hash;
}

bool GraphCache::same(const Entry& entry, const GraphKey& key) {
  return entry.owner.serial == key.owner.serial && entry.begin == key.begin &&
         entry.end == key.end && entry.mesh_device == key.mesh_device &&
         std::equal(entry.bases.begin(), entry.bases.end(), key.bases.begin(), key.bases.end());
}

bool GraphCache::replay(At at, const GraphKey& key,
                        const std::function<Status(StreamHandle)>& issue, Status& status) {
  ++now_;
  const uint64_t hash = hash_of(key);
  auto found = entries_.find(hash);
  if (found == entries_.end()) {
    const uint64_t seen = sightings_.see(hash, now_);
    if (seen == 0 || !make_room(at.stream, seen)) return false;
    found = entries_
                .emplace(hash, Entry{.owner = key.owner,
                                     .begin = key.begin,
                                     .end = key.end,
                                     .mesh_device = key.mesh_device,
                                     .bases = {key.bases.begin(), key.bases.end()}})
                .first;
    status = capture(found->second, issue);
    if (status.sticky) return true;
  }
  Entry& entry = found->second;
  if (!same(entry, key)) return false;
  entry.used = now_;
  if (!entry.graph) return false;
  ++launches_;
  status = driver_.launch(at, entry.graph);
  return true;
}

Status GraphCache::capture(Entry& entry, const std::function<Status(StreamHandle)>& issue) {
  if (Status begun = driver_.begin_capture(capture_); !begun.ok()) return begun;
  ++captures_;
  const Status issued = issue(capture_);
  const Result<GraphHandle> made = driver_.end_capture(capture_);
  if (!made.ok()) return issued;
  entry.graph = made.value();
  if (issued.ok()) return issued;
  driver_.destroy(entry.graph);
  entry.graph = {};
  return issued;
}

bool GraphCache::make_room(StreamHandle stream, uint64_t seen) {
  if (entries_.size() < kGraphsMax) return true;
  const auto oldest =
      std::min_element(entries_.begin(), entries_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  if (oldest->second.used > seen) return false;
  retire(stream, oldest->second);
  entries_.erase(oldest);
  return true;
}

void GraphCache::retire(StreamHandle stream, Entry& entry) {
  destroy_retired();
  if (!entry.graph) return;
  const Result<EventHandle> done = driver_.make_event();
  if (done.ok() && driver_.record({stream, "retire a graph"}, done.value()).ok()) {
    retired_.push_back({entry.graph, done.value(), std::move(entry.owner.keeps)});
    return;
  }
  // No event: either the device is lost and nothing runs on it, or it is short of events and
  // waiting is the only way.
  static_cast<void>(driver_.synchronize(stream));
  driver_.destroy(entry.graph);
  if (done.ok()) driver_.destroy(done.value());
}

void GraphCache::destroy_retired() {
  while (!retired_.empty()) {
    const Retired& oldest = retired_.front();
    if (driver_.query(oldest.done).kind == StatusKind::kNotReady) return;
    driver_.destroy(oldest.graph);
    driver_.destroy(oldest.done);
    retired_.pop_front();
  }
}

void GraphCache::trim() {
  destroy_retired();
  std::erase_if(entries_, [&](const auto& item) {
    const Entry& entry = item.second;
    if (!entry.owner.alive.expired()) return false;
    if (entry.graph) driver_.destroy(entry.graph);
    return true;
  });
}

}  // namespace gangway::cuda
