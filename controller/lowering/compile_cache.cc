#include "controller/lowering/lower.h"
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
  hasher.add(uint64_t{context.alone});
  return hasher.finish();
}

}  // namespace

const Compiled& CompileCache::compile(const Function& function, const CallContext& context) {
  const auto key = std::make_pair(content_hash(function), hash_of(context));
  if (auto at = compiled_.find(key); at != compiled_.end()) {
    ++hits_;
    return at->second;
  }
  Compiled compiled = compile_function(function, context);
  if (compiled_.size() >= kEntriesMax) compiled_.clear();
  return compiled_.emplace(key, std::move(compiled)).first->second;
}

}  // namespace gangway
