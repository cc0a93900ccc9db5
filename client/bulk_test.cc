#include "client/bulk.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace gangway::internal {
namespace {

constexpr int64_t kBytes = int64_t{1} << 20;
using Part = std::shared_ptr<SegmentHeap::Part>;

bool is_same_place(const Part& a, const Part& b) {
  return a->segment().token == b->segment().token && a->offset() == b->offset();
}

TEST(SegmentHeapTest, APartIsHandedOutAgainOnceItsHostsHaveSaidThatTheyAreDone) {
  const auto heap = std::make_shared<SegmentHeap>(kBytes);
  Part first = heap->take(100);
  const Part other = heap->take(100);
  const int64_t offset = first->offset();
  const uint64_t segment = first->segment().token;
  for (int transfer = 0; transfer < 2; ++transfer) first->lend();
  for (int transfer = 0; transfer < 2; ++transfer) first->returned();
  first.reset();
  const Part again = heap->take(100);
  EXPECT_EQ(again->offset(), offset);
  EXPECT_EQ(again->segment().token, segment);
}

TEST(SegmentHeapTest, APartThatAHostMayStillWriteToIsNeverHandedOutAgain) {
  const auto heap = std::make_shared<SegmentHeap>(kBytes);
  Part given = heap->take(4096);
  const SharedSegment late = SharedSegment::open(given->segment());
  std::byte* const there = late.data() + given->offset();
  for (int transfer = 0; transfer < 2; ++transfer) given->lend();
  given->returned();  // One of two transfers: the other is still lent.
  given.reset();
  EXPECT_EQ(heap->used(), 0);
  std::vector<Part> parts;
  for (int i = 0; i < 8; ++i) {
    parts.push_back(heap->take(kBytes / 8));
    std::memset(parts.back()->data(), 1, kBytes / 8);
  }
  std::memset(there, 7, 4096);
  for (const Part& part : parts) EXPECT_EQ(part->data()[0], std::byte{1});
}

TEST(SegmentHeapTest, OtherPartsOfASegmentThatWasGivenUpKeepWhatTheyHold) {
  const auto heap = std::make_shared<SegmentHeap>(kBytes);
  const Part before = heap->take(10'000);
  Part given = heap->take(100'000);
  const Part behind = heap->take(10'000);
  for (const Part& part : {before, given, behind})
    std::memset(part->data(), 5, static_cast<size_t>(part->bytes()));
  const SharedSegment late = SharedSegment::open(given->segment());
  const int64_t middle = given->offset() + 50'000;
  given->lend();
  given.reset();
  for (const Part& part : {before, behind}) {
    for (int64_t i = 0; i < part->bytes(); ++i) ASSERT_EQ(part->data()[i], std::byte{5}) << i;
  }
  EXPECT_EQ(late.data()[middle], std::byte{0}) << "its pages still cost memory";
  EXPECT_FALSE(is_same_place(before, heap->take(10'000)));
}

TEST(SegmentHeapTest, AHostThatIsLostAgainAndAgainDoesNotUseUpTheClientsSegments) {
  const auto heap = std::make_shared<SegmentHeap>(kBytes);
  std::set<uint64_t> segments;
  for (int loss = 0; loss < 200; ++loss) {
    const Part part = heap->take(kBytes);
    part->lend();
    segments.insert(part->segment().token);
  }
  EXPECT_EQ(segments.size(), 200u);
  EXPECT_EQ(heap->used(), 0);
}

}  // namespace
}  // namespace gangway::internal
