#include "controller/programs/run_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

constexpr uint64_t kMax = 10'000;

RunFrame run_with(uint64_t name, size_t bytes) {
  RunFrame run;
  run.run = RunId(name);
  run.arguments.emplace_back().bytes.resize(bytes);
  return run;
}

class RunMemoryTest : public testing::Test {
 protected:
  uint64_t used() const { return use_.used("ada", OwnerResource::kMemory); }

  OwnerUse use_{OwnerBounds{kMax, 1, 1, 1}};
  RunMemory memory_{use_, "ada"};
};

TEST_F(RunMemoryTest, LargeRunsAreCountedUntilTheyEnd) {
  RunFrame small = run_with(1, 100), large = run_with(2, 5000);
  memory_.hold(small);
  EXPECT_EQ(used(), 0u);
  memory_.hold(large);
  EXPECT_GE(used(), 5000u);
  EXPECT_FALSE(memory_.refusal(RunId(1)));
  EXPECT_FALSE(memory_.refusal(RunId(2)));
  EXPECT_EQ(large.arguments.size(), 1u);
  memory_.ended(RunId(2));
  EXPECT_EQ(used(), 0u);
}

TEST_F(RunMemoryTest, ARunThatIsTooLargeForItsOwnerIsRefusedOnce) {
  RunFrame first = run_with(1, 6000), second = run_with(2, 6000);
  memory_.hold(first);
  memory_.hold(second);
  EXPECT_TRUE(second.arguments.empty());
  EXPECT_FALSE(memory_.refusal(RunId(1)));
  const std::optional<Error> why = memory_.refusal(RunId(2));
  ASSERT_TRUE(why);
  EXPECT_EQ(why->kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(why->message(), testing::HasSubstr("owner \"ada\" may have no more"));
  EXPECT_FALSE(memory_.refusal(RunId(2)));
}

TEST_F(RunMemoryTest, ItIsFreedWithItsProgram) {
  {
    RunMemory memory(use_, "ada");
    RunFrame large = run_with(1, 5000);
    memory.hold(large);
    EXPECT_GE(used(), 5000u);
  }
  EXPECT_EQ(used(), 0u);
}

}  // namespace
}  // namespace gangway
