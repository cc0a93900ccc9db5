// A 128-bit content hash, stable across processes, machines and versions. Not cryptographic: it
// names content, it does not authenticate it.
//
//   Hasher hasher; hasher.add("name"); hasher.add(uint64_t{3}); Hash128 hash = hasher.finish();
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gangway {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

std::string to_string(const Hash128& hash);  // 32 hexadecimal digits

// Two lanes of a multiply-and-fold mix over little-endian words; every add() is framed by its
// length, so "ab","c" and "a","bc" differ.
class Hasher {
 public:
  void add(const void* bytes, size_t size);
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(uint64_t word);
  Hash128 finish() const;

 private:
  uint64_t a_ = 0x9e3779b97f4a7c15;
  uint64_t b_ = 0xd1b54a32d192ed03;
};

}  // namespace gangway

template <>
struct std::hash<gangway::Hash128> {
  size_t operator()(const gangway::Hash128& hash) const noexcept { return hash.low; }
};
