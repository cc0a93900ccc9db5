#include "runtime/base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace gangway {
namespace {

Hash128 hash_of(std::initializer_list<std::string_view> parts) {
  Hasher hasher;
  for (std::string_view part : parts) hasher.add(part);
  return hasher.finish();
}

TEST(Hash, IsStableAcrossProcessesAndVersions) {
  EXPECT_EQ(to_string(hash_of({"gangway", "123456789"})), "52fb2e3b54d38ce22a56e706433fff20");
}

TEST(Hash, FramesItsParts) { EXPECT_NE(hash_of({"ab", "c"}), hash_of({"a", "bc"})); }

TEST(Hash, DiffersForEveryFlippedBit) {
  std::string text = "the quick brown fox";
  std::set<std::string> seen{to_string(hash_of({text}))};
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(seen.insert(to_string(hash_of({other}))).second) << "bit " << bit;
  }
}

}  // namespace
}  // namespace gangway
