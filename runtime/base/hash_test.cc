#include "runtime/base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace gangway {
namespace {

Hash128 hash_of(std::initializer_list<std::string_view> parts) {
  Hasher hasher;
  for (std::string_view part : parts) hasher.add(part);
  return hasher.finish();
}

std::string counting_bytes(size_t n) {
  std::string bytes(n, '\0');
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

std::string hash_cut_into(const std::string& bytes, size_t cut) {
  Hasher hasher;
  for (size_t at = 0; at < bytes.size(); at += cut)
    hasher.add_unframed(bytes.data() + at, std::min(cut, bytes.size() - at));
  return to_string(hasher.finish());
}

// From an independent BLAKE2b with a 16-byte digest.
TEST(Hash, GivesTheKnownAnswers) {
  EXPECT_EQ(hash_cut_into("", 1), "cae66941d9efbd404e4d88758ea67670");
  EXPECT_EQ(hash_cut_into("abc", 3), "cf4ab791c62b8d2b2109c90275287816");
  EXPECT_EQ(hash_cut_into(counting_bytes(128), 128), "a74787004ef589e31149183900d0294a");
}

TEST(Hash, TheHashOfAStreamDoesNotDependOnHowItIsCut) {
  for (size_t cut : {1u, 7u, 128u, 129u, 1000u})
    EXPECT_EQ(hash_cut_into(counting_bytes(1000), cut), "978a3f8b45508a42fe7f0f99caf2c423") << cut;
}

TEST(Hash, IsStableAcrossProcessesAndVersions) {
  EXPECT_EQ(to_string(hash_of({"gangway", "123456789"})), "25f35bd37d76005bee32b3aaf42ec1d9");
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
