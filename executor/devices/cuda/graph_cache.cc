#include "executor/devices/cuda/graph_cache.h"

#include <algorithm>

namespace gangway::cuda {

GraphCache::~GraphCache() {
  for (const auto& [hash, entry] : entries_) {
    if (entry.graph) driver_.destroy(entry.graph);
  }
}

uint64_t GraphCache::hash_of(const GraphKey& key) {
  uint64_t hash = key.function * 0x9E3779B97F4A7C15u + key.begin;
  const auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001B3u; };
  mix(uint64_t{key.end} << 32 | key.mesh_device);
  for (const std::byte* base : key.bases) mix(reinterpret_cast<uintptr_t>(base));
  return hash;
}

bool GraphCache::same(const Entry& entry, const GraphKey& key) {
  return entry.key.function == key.function && entry.key.begin == key.begin &&
         entry.key.end == key.end && entry.key.mesh_device == key.mesh_device &&
         std::equal(entry.bases.begin(), entry.bases.end(), key.bases.begin(), key.bases.end());
}

bool GraphCache::replay(At at, const GraphKey& key,
                        const std::function<Status(StreamHandle)>& issue, Status& status) {
  const uint64_t hash = hash_of(key);
  const auto found = entries_.find(hash);
  if (found == entries_.end()) {
    if (entries_.size() < kGraphsMax)
      entries_.emplace(hash, Entry{key, {key.bases.begin(), key.bases.end()}, {}});
    return false;
  }
  Entry& entry = found->second;
  if (!same(entry, key)) return false;
  if (!entry.tried) status = capture(entry, issue);
  if (status.sticky) return true;
  if (!entry.graph) return false;
  ++launches_;
  status = driver_.launch(at, entry.graph);
  return true;
}

Status GraphCache::capture(Entry& entry, const std::function<Status(StreamHandle)>& issue) {
  entry.tried = true;
  if (Status begun = driver_.begin_capture(capture_); !begun.ok()) return begun;
  const Status issued = issue(capture_);
  const Result<GraphHandle> made = driver_.end_capture(capture_);
  if (!made.ok()) return issued;
  entry.graph = made.value();
  if (issued.ok()) return issued;
  driver_.destroy(entry.graph);
  entry.graph = {};
  return issued;
}

}  // namespace gangway::cuda
