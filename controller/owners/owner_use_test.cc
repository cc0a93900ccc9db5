#include "controller/owners/owner_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/error_of.h"

namespace gangway::owner_use_test {
namespace {

using testing::HasSubstr;

constexpr OwnerResource kMemory = OwnerResource::kMemory;

TEST(OwnerUseTest, AnOwnerTakesUpToItsBoundAndOthersTheirs) {
  OwnerUse use({100, 3, 2, 50});
  OwnerUse::Hold ann = use.take("ann", kMemory, 60, "compile");
  EXPECT_TRUE(ann.try_grow(40));
  EXPECT_FALSE(ann.try_grow(1));
  EXPECT_EQ(use.used("ann", kMemory), 100u);
  const OwnerUse::Hold bob = use.take("bob", kMemory, 100, "compile");
  const Error refused = error_of([&] { use.take("ann", kMemory, 1, "compile"); });
  EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(refused.message(),
              HasSubstr("compile: owner \"ann\" has 100 B of the controller's memory: expected at "
                        "most 100 B, got 1 B more"));
  EXPECT_THAT(error_of([&] { use.take("ann", OwnerResource::kCalls, 4, "status"); }).message(),
              HasSubstr("has 0 calls under way: expected at most 3, got 4 more"));
  ann.shrink(50);
  EXPECT_TRUE(ann.try_grow(50));
}

TEST(OwnerUseTest, AHoldThatIsMovedOrReplacedIsReleasedExactlyOnce) {
  OwnerUse use({100, 3, 2, 50});
  {
    OwnerUse::Hold first = use.take("ann", kMemory, 10, "compile");
    OwnerUse::Hold second = std::move(first);
    first = use.take("ann", kMemory, 20, "compile");
    EXPECT_EQ(use.used("ann", kMemory), 30u);
    second = OwnerUse::Hold();
    EXPECT_EQ(use.used("ann", kMemory), 20u);
    std::vector<OwnerUse::Hold> many;
    for (int i = 0; i < 50; ++i) many.push_back(use.take("ann", kMemory, 1, "run"));
    EXPECT_EQ(use.used("ann", kMemory), 70u);
  }
  EXPECT_EQ(use.used("ann", kMemory), 0u);
}

TEST(OwnerUseTest, MemoryMayBeBoundedByOwner) {
  OwnerUse use({100, 3, 2, 50});
  use.set_memory_max({{"ann", 10}}, 50);
  EXPECT_EQ(use.max("ann", kMemory), 10u);
  EXPECT_EQ(use.max("bob", kMemory), 50u);
  use.set_memory_max({}, {});
  EXPECT_EQ(use.max("bob", kMemory), 100u);
  EXPECT_EQ(use.max("bob", OwnerResource::kCalls), 3u);
}

TEST(OwnerUseTest, AHoldWithoutAnOwnerGrowsWithoutABound) {
  OwnerUse::Hold held;
  EXPECT_TRUE(held.try_grow(uint64_t{1} << 62));
  held.shrink(7);
}

}  // namespace
}  // namespace gangway::owner_use_test
