#include "tests/conformance/collective_suite.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/rng.h"

namespace gangway {
namespace {

// What member `rank` contributes: sums of these round, so that the order of the members shows in
// the bits.
std::vector<float> contribution(uint32_t rank, size_t n) {
  Rng rng(17, rank);
  std::vector<float> values(n);
  for (float& value : values)
    value = static_cast<float>(rng.uniform() * std::exp2(static_cast<double>(rng.below(12))));
  return values;
}

std::vector<float> sum_in_order(uint32_t size, size_t n) {
  std::vector<float> total = contribution(0, n);
  for (uint32_t r = 1; r < size; ++r) {
    const std::vector<float> next = contribution(r, n);
    for (size_t i = 0; i < n; ++i) total[i] += next[i];
  }
  return total;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool sum(CollectiveMember& member, std::vector<float>& values, bool poisoned = false) {
  const CollectiveTensor tensor{values.data(), values.data(), static_cast<int64_t>(values.size()),
                                DType::kF32};
  member.collective.begin_all_reduce({&tensor, 1}, Reduction::kSum, poisoned);
  member.finish();
  return !member.collective.poisoned();
}

TEST_P(CollectiveSuite, SumsHaveTheBitsOfTheMembersOrderOnEveryMember) {
  for (uint32_t size : {1u, 2u, 3u, 4u}) {
    for (size_t n : {size_t{0}, size_t{1}, size_t{5}, size_t{1000}, size_t{100'003}}) {
      EXPECT_TRUE(
          GetParam().run(size, static_cast<int64_t>(n) * 4 + 64,
                         [=](CollectiveMember& member) {
                           std::vector<float> values = contribution(member.collective.rank(), n);
                           return sum(member, values) && same_bits(values, sum_in_order(size, n));
                         }))
          << size << " members, " << n << " elements";
    }
  }
}

TEST_P(CollectiveSuite, ManyInARowNeverMixUp) {
  EXPECT_TRUE(GetParam().run(3, 64 << 10, [](CollectiveMember& member) {
    for (size_t round = 0; round < 300; ++round) {
      const size_t n = round % 3 == 0 ? 9000 : 10;
      std::vector<float> values(n, static_cast<float>(round + member.collective.rank()));
      if (!sum(member, values)) return false;
      for (float value : values) {
        if (value != static_cast<float>(3 * round + 3)) return false;
      }
      member.collective.begin_exchange(round * 10 + member.collective.rank(), false);
      member.finish();
      for (uint32_t r = 0; r < 3; ++r) {
        if (member.collective.words()[r] != round * 10 + r) return false;
      }
    }
    return true;
  }));
}

TEST_P(CollectiveSuite, APoisonedMemberTakesPartAndEveryoneLearnsIt) {
  EXPECT_TRUE(GetParam().run(4, 64 << 10, [](CollectiveMember& member) {
    for (uint32_t bad = 0; bad < 4; ++bad) {
      std::vector<float> values(5000, 1);
      if (sum(member, values, member.collective.rank() == bad)) return false;
      member.collective.begin_exchange(1, member.collective.rank() == bad);
      member.finish();
      if (!member.collective.poisoned()) return false;
      // What follows is clean again.
      std::vector<float> next(5000, 1);
      if (!sum(member, next) || next[4999] != 4) return false;
    }
    return true;
  }));
}

TEST_P(CollectiveSuite, ABucketOfSeveralTypesReducesEachInItsOwnWay) {
  EXPECT_TRUE(GetParam().run(2, 64 << 10, [](CollectiveMember& member) {
    const bool first = member.collective.rank() == 0;
    std::vector<double> doubles(3001, first ? 1e100 : 1);
    std::vector<int32_t> ints(7, first ? 2'000'000'000 : -5);
    std::vector<uint16_t> halves(2000, std::bit_cast<uint32_t>(first ? 256.0f : 1.5f) >> 16);
    const CollectiveTensor bucket[] = {{doubles.data(), doubles.data(), 3001, DType::kF64},
                                       {ints.data(), ints.data(), 7, DType::kI32},
                                       {halves.data(), halves.data(), 2000, DType::kBF16}};
    member.collective.begin_all_reduce(bucket, Reduction::kMax, false);
    member.finish();
    if (doubles[3000] != 1e100 || ints[6] != 2'000'000'000) return false;
    if (std::bit_cast<float>(static_cast<uint32_t>(halves[1999]) << 16) != 256.0f) return false;
    halves.assign(2000,
                  static_cast<uint16_t>(std::bit_cast<uint32_t>(first ? 256.0f : 1.5f) >> 16));
    member.collective.begin_all_reduce({&bucket[2], 1}, Reduction::kSum, false);
    member.finish();
    // 257.5 lies between 256 and 258, and is rounded once, to the nearest.
    return std::bit_cast<float>(static_cast<uint32_t>(halves[0]) << 16) == 258.0f;
  }));
}

TEST_P(CollectiveSuite, MaximaKeepNan) {
  EXPECT_TRUE(GetParam().run(2, 64, [](CollectiveMember& member) {
    float value = member.collective.rank() == 0 ? NAN : 1.0f;
    const CollectiveTensor tensor{&value, &value, 1, DType::kF32};
    member.collective.begin_all_reduce({&tensor, 1}, Reduction::kMax, false);
    member.finish();
    return std::isnan(value);
  }));
}

}  // namespace
}  // namespace gangway
