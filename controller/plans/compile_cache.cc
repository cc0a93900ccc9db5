#include "controller/plans/compile_cache.h"

#include <set>

#include "controller/plans/held_bytes.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

Hash128 hash_of(const CallContext& context) {
  Hasher hasher;
  hasher.add(uint64_t{context.in_place.size()});
  for (const auto& pair : context.in_place) {
    hasher.add(uint64_t{pair.parameter});
    hasher.add(uint64_t{pair.result});
  }
  hasher.add(uint64_t{context.finite_result});
  for (const AxisPlacements& placements : context.result_placements) {
    hasher.add(uint64_t{placements.size()});
    for (const auto& [axis, placement] : placements) {
      hasher.add(axis);
      hasher.add(to_string(placement));
    }
  }
  hasher.add(context.device_kind);
  hasher.add(uint64_t{context.links.size()});
  for (const LinkClass link : context.links) hasher.add(static_cast<uint64_t>(link));
  hasher.add(uint64_t{context.alone});
  return hasher.finish();
}

size_t bytes_of(const Compiled& compiled) {
  std::set<const Function*> seen;
  const size_t axes = compiled.local.function->mesh.axes.size();
  const size_t shardings = compiled.parameter_shardings.size() + compiled.result_shardings.size();
  return held_bytes(*compiled.local.function, seen) + sizeof(Compiled) +
         shardings * (sizeof(Sharding) + axes * sizeof(Placement)) +
         compiled.local.in_place.size() * sizeof(LocalFunction::InPlace) +
         compiled.local.sections.size() * sizeof(LocalFunction::Section);
}

}  // namespace

std::shared_ptr<const Compiled> CompileCache::compile(const Function& function,
                                                      const CallContext& context,
                                                      const PassWatch& watch) {
  const Key key(content_hash(function), location_hash(function), hash_of(context));
  if (auto known = find(key)) return known;
  return keep(key, compile_function(function, context, watch));
}

CompileCache::Counts CompileCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::shared_ptr<const Compiled> CompileCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  ++counts_.hits;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.compiled;
}

std::shared_ptr<const Compiled> CompileCache::keep(const Key& key, Compiled compiled) {
  auto created = std::make_shared<const Compiled>(std::move(compiled));
  const size_t bytes = bytes_of(*created);
  std::vector<std::shared_ptr<const Compiled>> dropped;  // Destroyed outside the lock.
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = entries_.try_emplace(key);
  if (!is_new) return at->second.compiled;  // Another thread was faster.
  uses_.push_front(key);
  at->second = {created, bytes, uses_.begin()};
  counts_.bytes += bytes;
  while (counts_.bytes > bytes_max_ && uses_.size() > 1) {
    const auto oldest = entries_.find(uses_.back());
    counts_.bytes -= oldest->second.bytes;
    dropped.push_back(std::move(oldest->second.compiled));
    entries_.erase(oldest);
    uses_.pop_back();
  }
  counts_.entries = entries_.size();
  return created;
}

}  // namespace gangway
