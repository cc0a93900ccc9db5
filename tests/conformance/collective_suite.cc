#include "tests/conformance/collective_suite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "ir/types/number.h"
#include "runtime/base/rng.h"
#include "tests/conformance/collective_cases.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// The contribution of member `rank`. Sums of these values round, so that the order of members shows
// in the bits.
std::vector<float> contribution(uint32_t rank, size_t n) {
  Rng rng(17, rank);
  std::vector<float> values(n);
  for (float& value : values)
    value = static_cast<float>(rng.uniform() * std::exp2(static_cast<double>(rng.below(12))));
  return values;
}

// Sum of members [first, first + size), in the tree of collectives/hosts/rank_tree.h.
std::vector<float> sum_in_tree(uint32_t first, uint32_t size, size_t n) {
  if (size == 1) return contribution(first, n);
  const uint32_t left = std::bit_floor(size - 1);
  std::vector<float> total = sum_in_tree(first, left, n);
  const std::vector<float> right = sum_in_tree(first + left, size - left, n);
  for (size_t i = 0; i < n; ++i) total[i] += right[i];
  return total;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 1e-5f * std::abs(b[i])) return false;
  }
  return true;
}

bool all_reduce(CollectiveMember& member, std::span<const CollectiveTensor> tensors,
                Reduction reduction, bool poisoned) {
  return member.run({.tensors = tensors, .reduction = reduction}, poisoned);
}

bool sum(CollectiveMember& member, std::vector<float>& values, bool poisoned = false) {
  const CollectiveTensor tensor{values.data(), values.data(), static_cast<int64_t>(values.size()),
                                DType::kF32};
  return all_reduce(member, {&tensor, 1}, Reduction::kSum, poisoned);
}

// True if all members have the same bytes.
bool agrees(CollectiveMember& member, const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3u;
  WordRange words;
  return member.exchange(hash, false, words) && words.least == hash && words.most == hash;
}

TEST_P(CollectiveSuite, SumsHaveTheSameBitsOnEveryMemberAndThoseOfTheTreeOverMembers) {
  const bool in_order = GetParam().in_tree_order;
  for (uint32_t size : {1u, 2u, 3u, 4u, 7u}) {
    if (size > 4 && !in_order) continue;  // A library's order of seven is not known.
    for (size_t n : {size_t{0}, size_t{1}, size_t{5}, GetParam().elements_max}) {
      EXPECT_TRUE(GetParam().run(size, static_cast<int64_t>(n) * 4 + 64,
                                 [=](CollectiveMember& member) {
                                   const std::vector<float> want = sum_in_tree(0, size, n);
                                   std::vector<float> values = contribution(member.rank, n);
                                   return sum(member, values) &&
                                          agrees(member, values.data(), values.size() * 4) &&
                                          near(values, want) &&
                                          (!in_order || same_bits(values, want));
                                 }))
          << size << " members, " << n << " elements";
    }
  }
}

TEST_P(CollectiveSuite, ManyCollectivesInARowNeverMixUp) {
  const size_t rounds = GetParam().rounds, large = std::min<size_t>(9000, GetParam().elements_max);
  EXPECT_TRUE(GetParam().run(3, 64 << 10, [=](CollectiveMember& member) {
    for (size_t round = 0; round < rounds; ++round) {
      const size_t n = round % 3 == 0 ? large : 10;
      std::vector<float> values(n, static_cast<float>(round + member.rank));
      if (!sum(member, values)) return false;
      for (float value : values) {
        if (value != static_cast<float>(3 * round + 3)) return false;
      }
      WordRange words;
      if (!member.exchange(round * 10 + member.rank, false, words)) return false;
      if (words.least != round * 10 || words.most != round * 10 + 2) return false;
    }
    return true;
  }));
}

TEST_P(CollectiveSuite, APoisonedMemberTakesPartAndEveryoneLearnsIt) {
  const size_t n = std::min<size_t>(5000, GetParam().elements_max);
  EXPECT_TRUE(GetParam().run(4, 64 << 10, [=](CollectiveMember& member) {
    for (uint32_t bad = 0; bad < 4; ++bad) {
      std::vector<float> values(n, 1);
      if (sum(member, values, member.rank == bad)) return false;
      WordRange words;
      if (member.exchange(1, member.rank == bad, words)) return false;
      // The next collective is clean again.
      std::vector<float> next(n, 1);
      if (!sum(member, next) || next[n - 1] != 4) return false;
    }
    return true;
  }));
}

// Whole numbers whose sums every type holds, so that every order gives the same result.
double value_of(uint64_t seed, size_t round, size_t tensor, uint32_t rank, size_t i) {
  Rng rng(seed + round * 1009 + tensor * 101, rank * 65'537 + i);
  return static_cast<double>(rng.below(17)) - 8;
}

double joined(Reduction reduction, double a, double b) {
  if (reduction == Reduction::kSum) return a + b;
  return reduction == Reduction::kMax ? std::max(a, b) : std::min(a, b);
}

struct RandomRound {
  RandomRound(uint64_t chosen, size_t number, uint32_t members, size_t elements_max)
      : seed(chosen), round(number), size(members) {
    Rng rng(seed, round);
    reduction = static_cast<Reduction>(rng.below(3));
    poisoned = rng.below(4) == 0 ? static_cast<uint32_t>(rng.below(size)) : size;
    const DType dtypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI32};
    for (uint64_t left = 1 + rng.below(3); left > 0; --left) {
      const size_t sizes[] = {0, 1, 7, 33, std::min<size_t>(3001, elements_max)};
      tensors.push_back({dtypes[rng.below(4)], sizes[rng.below(5)]});
    }
  }

  bool run(CollectiveMember& member) const {
    std::vector<std::vector<std::byte>> data;
    std::vector<CollectiveTensor> bucket;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto [dtype, n] = tensors[t];
      data.emplace_back(n * size_of(dtype));
      for (size_t i = 0; i < n; ++i)
        store_number(dtype, value_of(seed, round, t, member.rank, i),
                     data[t].data() + i * size_of(dtype));
      bucket.push_back({data[t].data(), data[t].data(), static_cast<int64_t>(n), dtype});
    }
    const bool clean = all_reduce(member, bucket, reduction, member.rank == poisoned);
    if (poisoned < size) return !clean;
    return clean && is_reduced(data);
  }

  bool is_reduced(const std::vector<std::vector<std::byte>>& data) const {
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto [dtype, n] = tensors[t];
      for (size_t i = 0; i < n; ++i) {
        double want = value_of(seed, round, t, 0, i);
        for (uint32_t r = 1; r < size; ++r)
          want = joined(reduction, want, value_of(seed, round, t, r, i));
        if (load_number(dtype, data[t].data() + i * size_of(dtype)) != want) return false;
      }
    }
    return true;
  }

  const uint64_t seed;
  const size_t round;
  const uint32_t size;
  Reduction reduction = Reduction::kSum;
  uint32_t poisoned = 0;  // `size`: no member.
  std::vector<std::pair<DType, size_t>> tensors;
};

TEST_P(CollectiveSuite, AnyTypesReductionsAndSizesInAnyOrderWithPoisonedMembers) {
  const uint64_t seed = gangway::tests::test_seed();
  const size_t rounds = std::min<size_t>(GetParam().rounds, 24);
  const size_t elements_max = GetParam().elements_max;
  for (uint32_t size : {1u, 2u, 4u}) {
    EXPECT_TRUE(GetParam().run(size, 80 << 10,
                               [=](CollectiveMember& member) {
                                 for (size_t round = 0; round < rounds; ++round) {
                                   if (!RandomRound(seed, round, size, elements_max).run(member))
                                     return false;
                                 }
                                 return true;
                               }))
        << size << " members";
  }
}

TEST_P(CollectiveSuite, SumsOfBf16AreRoundedToTheNearest) {
  EXPECT_TRUE(GetParam().run(2, 64 << 10, [](CollectiveMember& member) {
    const float value = member.rank == 0 ? 256.0f : 1.5f;
    std::vector<uint16_t> halves(200, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    const CollectiveTensor tensor{halves.data(), halves.data(), 200, DType::kBF16};
    if (!all_reduce(member, {&tensor, 1}, Reduction::kSum, false)) return false;
    // 257.5 lies between 256 and 258.
    return std::bit_cast<float>(static_cast<uint32_t>(halves[199]) << 16) == 258.0f;
  }));
}

TEST_P(CollectiveSuite, MaximaKeepNan) {
  if (!GetParam().in_tree_order) GTEST_SKIP() << "a library's own rule";
  EXPECT_TRUE(GetParam().run(2, 64, [](CollectiveMember& member) {
    float value = member.rank == 0 ? NAN : 1.0f;
    const CollectiveTensor tensor{&value, &value, 1, DType::kF32};
    return all_reduce(member, {&tensor, 1}, Reduction::kMax, false) && std::isnan(value);
  }));
}

constexpr CollectiveKind kMoves[] = {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                                     CollectiveKind::kAllToAll,  CollectiveKind::kRaggedAllToAll,
                                     CollectiveKind::kPermute,   CollectiveKind::kBroadcast};

// Draws the same cases on all members.
std::vector<CollectiveCase> draw_cases(const CollectiveMaker& maker, CollectiveKind kind,
                                       uint32_t size, size_t count) {
  Rng rng(gangway::tests::test_seed(), static_cast<uint64_t>(kind) * 64 + size);
  std::vector<CollectiveCase> cases;
  const int64_t elements_max = std::min<int64_t>(5003, static_cast<int64_t>(maker.elements_max));
  while (cases.size() < count) cases.emplace_back(rng, kind, size, elements_max);
  return cases;
}

int64_t bytes_of(const std::vector<CollectiveCase>& cases) {
  int64_t bytes = 64 << 10;
  for (const CollectiveCase& one : cases) bytes = std::max(bytes, one.bytes());
  return bytes;
}

bool is_right(CollectiveMember& member, const CollectiveCase& one) {
  CollectiveCase::Data data = one.data(member.rank);
  const std::vector<std::byte> in = data.in;
  if (member.run(one.call(data), false) && one.is_right(member.rank, data) && data.in == in)
    return true;
  ADD_FAILURE() << one.text() << ", member " << member.rank;
  return false;
}

// Each of three members sends its two rows to the first.
bool send_all_to_one(CollectiveMember& member, int64_t bound) {
  constexpr int64_t kRows = 2, kRowElements = 4;
  const std::vector<float> in(kRows * kRowElements, static_cast<float>(member.rank + 1));
  std::vector<float> out(static_cast<size_t>(bound * kRowElements));
  const std::vector<int32_t> sizes = {kRows, 0, 0};
  std::vector<int32_t> received(sizes.size());
  const CollectiveTensor tensor{in.data(), out.data(), kRows * kRowElements, DType::kF32};
  const bool moved = member.run({.kind = CollectiveKind::kRaggedAllToAll,
                                 .tensors = {&tensor, 1},
                                 .ragged = {.row_elements = kRowElements,
                                            .rows = kRows,
                                            .bound = bound,
                                            .must_fit = true,
                                            .sizes = sizes.data(),
                                            .received = received.data()}},
                                false);
  if (moved && member.rank == 0) {
    EXPECT_EQ(out.back(), 3);
  }
  return moved;
}

TEST_P(CollectiveSuite, RaggedRowsThatMustFitAndDoNotFailTheirReceiverAndPoisonTheOthers) {
  if (!GetParam().kinds.has(CollectiveKind::kRaggedAllToAll)) GTEST_SKIP() << "it has none";
  EXPECT_TRUE(GetParam().run(3, 4096, [](CollectiveMember& member) {
    for (int round = 0; round < 3; ++round) {
      if (send_all_to_one(member, 5)) return false;
      const auto failure = member.failure();
      if ((failure != nullptr) != (member.rank == 0)) return false;
      if (failure != nullptr && failure->kind() != ErrorKind::kOverflow) return false;
      if (!send_all_to_one(member, 6) || member.failure() != nullptr) return false;
    }
    return true;
  }));
}

TEST_P(CollectiveSuite, EveryKindGivesEachMemberWhatItsDescriptionSays) {
  if (!GetParam().kinds.has_moves()) GTEST_SKIP() << "it has none but all-reduce";
  for (const uint32_t size : {1u, 2u, 3u, 4u, 7u, 8u}) {
    std::vector<CollectiveCase> cases;
    for (const CollectiveKind kind : kMoves) {
      if (!GetParam().kinds.has(kind)) continue;
      std::ranges::move(draw_cases(GetParam(), kind, size, GetParam().cases),
                        std::back_inserter(cases));
    }
    EXPECT_TRUE(GetParam().run(size, bytes_of(cases),
                               [&](CollectiveMember& member) {
                                 return std::ranges::all_of(cases, [&](const CollectiveCase& one) {
                                   return is_right(member, one);
                                 });
                               }))
        << size << " members";
  }
}

// Each member is the root once, so that the others are on its host or on other hosts.
TEST_P(CollectiveSuite, ABroadcastFromAnyMemberGivesAllMembersItsTensor) {
  if (!GetParam().kinds.has(CollectiveKind::kBroadcast)) GTEST_SKIP() << "it has no broadcast";
  const int64_t elements_max =
      std::min<int64_t>(5003, static_cast<int64_t>(GetParam().elements_max));
  for (const uint32_t size : {1u, 2u, 3u, 4u, 7u, 8u}) {
    Rng rng(gangway::tests::test_seed(), 17 * 64 + size);
    const CollectiveCase what = largest_case(rng, CollectiveKind::kBroadcast, size, elements_max);
    EXPECT_TRUE(GetParam().run(size, bytes_of({what}),
                               [&](CollectiveMember& member) {
                                 for (uint32_t root = 0; root < size; ++root) {
                                   if (!is_right(member, what.from(root))) return false;
                                 }
                                 return true;
                               }))
        << size << " members";
  }
}

// Members that wait for room are woken, in the first collective and in later ones.
TEST_P(CollectiveSuite, CollectivesOfManyMessagesInARowGoOn) {
  if (!GetParam().kinds.has_moves()) GTEST_SKIP() << "it has none but all-reduce";
  constexpr uint32_t kSize = 3;
  Rng rng(gangway::tests::test_seed(), 16);
  std::vector<CollectiveCase> cases;
  for (const CollectiveKind kind : kMoves) {
    if (GetParam().kinds.has(kind))
      cases.push_back(
          largest_case(rng, kind, kSize, static_cast<int64_t>(GetParam().elements_max)));
  }
  EXPECT_TRUE(GetParam().run(kSize, bytes_of(cases), [&](CollectiveMember& member) {
    return std::ranges::all_of(cases,
                               [&](const CollectiveCase& one) { return is_right(member, one); });
  }));
}

// Keeps two rows of the first of the parts [outer, 4, inner].
TEST_P(CollectiveSuite, AGatherThatDropsMostPartsNeedsNoMoreThanItsPlannedBytes) {
  if (!GetParam().kinds.has(CollectiveKind::kAllGather)) GTEST_SKIP() << "it has no all-gather";
  constexpr size_t kInner = 100;
  for (const size_t outer : {size_t{1}, size_t{3}}) {
    const Type type = f32({static_cast<int64_t>(outer), 4, kInner});
    const CollectiveCut cut = gather_cut(type, 1, 2);
    const int64_t bytes = type.bytes();
    for (const uint32_t size : {3u, 7u}) {
      EXPECT_TRUE(GetParam().run(
          size, bytes,
          [&](CollectiveMember& member) {
            const std::vector<float> given = contribution(member.rank, 4 * outer * kInner);
            const std::vector<float> first = contribution(0, given.size());
            std::vector<float> got(given.size() / 2), want;
            for (size_t o = 0; o < outer; ++o)
              want.insert(want.end(), first.begin() + static_cast<std::ptrdiff_t>(4 * o * kInner),
                          first.begin() + static_cast<std::ptrdiff_t>((4 * o + 2) * kInner));
            const CollectiveTensor tensor{given.data(), got.data(), type.elements(), DType::kF32};
            return member.run(
                       {.kind = CollectiveKind::kAllGather, .tensors = {&tensor, 1}, .cut = cut},
                       false) &&
                   same_bits(got, want);
          }))
          << size << " members";
    }
  }
}

TEST_P(CollectiveSuite, GatheredPartsOfAReduceScatterHaveTheBitsOfAnAllReduce) {
  const CollectiveMaker& maker = GetParam();
  if (!maker.kinds.has(CollectiveKind::kReduceScatter) ||
      !maker.kinds.has(CollectiveKind::kAllGather))
    GTEST_SKIP() << "it has no reduce-scatter";
  if (!maker.scatters_as_it_reduces) GTEST_SKIP() << "the order is a library's own";
  const auto n = static_cast<int64_t>(std::min<size_t>(9001, maker.elements_max));
  for (const uint32_t size : {2u, 3u, 7u}) {
    EXPECT_TRUE(maker.run(
        size, 80 << 10,
        [=](CollectiveMember& member) {
          const std::vector<float> given = contribution(member.rank, static_cast<size_t>(n));
          std::vector<float> want = given, whole(given.size());
          if (!sum(member, want)) return false;
          const CollectiveCut scatter = scatter_cut(f32({n}), 0, member.size);
          std::vector<float> part(static_cast<size_t>(scatter.part));
          const CollectiveTensor in{given.data(), part.data(), n, DType::kF32};
          if (!member.run(
                  {.kind = CollectiveKind::kReduceScatter, .tensors = {&in, 1}, .cut = scatter},
                  false))
            return false;
          const CollectiveTensor parts{part.data(), whole.data(), scatter.part, DType::kF32};
          const CollectiveCut gather = gather_cut(f32({scatter.part}), 0, n);
          return member.run(
                     {.kind = CollectiveKind::kAllGather, .tensors = {&parts, 1}, .cut = gather},
                     false) &&
                 same_bits(whole, want);
        }))
        << size << " members";
  }
}

TEST_P(CollectiveSuite, EveryKindTellsAllMembersOfAPoisonedOneAndTheNextIsClean) {
  if (!GetParam().kinds.has_moves()) GTEST_SKIP() << "it has none but all-reduce";
  constexpr uint32_t kSize = 3;
  std::vector<CollectiveCase> cases;
  for (const CollectiveKind kind : kMoves) {
    if (GetParam().kinds.has(kind))
      std::ranges::move(draw_cases(GetParam(), kind, kSize, 2), std::back_inserter(cases));
  }
  EXPECT_TRUE(GetParam().run(kSize, bytes_of(cases), [&](CollectiveMember& member) {
    for (uint32_t bad = 0; bad < kSize; ++bad) {
      for (const CollectiveCase& one : cases) {
        CollectiveCase::Data data = one.data(member.rank);
        // A poisoned member may hold anything.
        if (member.rank == bad) std::ranges::fill(data.sizes, 0x7fff'ffff);
        if (member.run(one.call(data), member.rank == bad)) return false;
      }
      if (!is_right(member, cases[bad % cases.size()])) return false;
    }
    return true;
  }));
}

TEST_P(CollectiveSuite, CollectivesOfAllKindsInAnyOrderNeverMixUp) {
  if (!GetParam().kinds.has_moves()) GTEST_SKIP() << "it has none but all-reduce";
  constexpr uint32_t kSize = 4;
  std::vector<CollectiveCase> cases;
  for (const CollectiveKind kind : kMoves) {
    if (GetParam().kinds.has(kind))
      std::ranges::move(draw_cases(GetParam(), kind, kSize, 4), std::back_inserter(cases));
  }
  const size_t rounds = GetParam().cases * 10;
  const uint64_t seed = gangway::tests::test_seed();
  EXPECT_TRUE(GetParam().run(kSize, bytes_of(cases), [&](CollectiveMember& member) {
    Rng rng(seed, 5);
    for (size_t round = 0; round < rounds; ++round) {
      const uint64_t choice = rng.below(4);
      if (choice == 0) {
        std::vector<float> values(rng.below(2) == 0 ? 10 : 3000, static_cast<float>(member.rank));
        if (!sum(member, values) || values.back() != 6) return false;
      } else if (choice == 1) {
        WordRange words;
        if (!member.exchange(round + member.rank, false, words) || words.most != round + 3)
          return false;
      } else if (!is_right(member, cases[rng.below(cases.size())])) {
        return false;
      }
    }
    return true;
  }));
}

}  // namespace
}  // namespace gangway
