// CollectiveKind: the operations that the members of a group can do together. CollectiveKinds: a
// set of them, which the collectives of a plan need of a group, or an implementation offers.
//
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gangway {

// docs/collectives.md has the cost of each, collective_call.h its meaning.
enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kRaggedAllToAll,
  kPermute,
  kBroadcast
};
inline constexpr size_t kCollectiveKinds = 7;

// Names of their ops: "all_gather", "collective_broadcast".
constexpr std::string_view to_string(CollectiveKind kind) {
  constexpr std::string_view kNames[kCollectiveKinds] = {
      "all_reduce",        "all_gather", "reduce_scatter",      "all_to_all",
      "ragged_all_to_all", "permute",    "collective_broadcast"};
  return kNames[static_cast<size_t>(kind)];
}

class CollectiveKinds {
 public:
  constexpr CollectiveKinds() = default;
  constexpr explicit CollectiveKinds(uint32_t bits) : bits_(bits) {}
  static constexpr CollectiveKinds all() {
    return CollectiveKinds((uint32_t{1} << kCollectiveKinds) - 1);
  }

  constexpr void add(CollectiveKind kind) { bits_ |= bit(kind); }
  constexpr void add(CollectiveKinds kinds) { bits_ |= kinds.bits_; }
  constexpr bool has(CollectiveKind kind) const { return (bits_ & bit(kind)) != 0; }
  // Whether it has any kind besides all-reduce.
  constexpr bool has_moves() const { return (bits_ & ~bit(CollectiveKind::kAllReduce)) != 0; }

 private:
  static constexpr uint32_t bit(CollectiveKind kind) {
    return uint32_t{1} << static_cast<uint32_t>(kind);
  }
  uint32_t bits_ = 0;
};

}  // namespace gangway
