#include "executor/store/host_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "executor/store/buffer.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

TEST(HostBudgetTest, BytesCountUntilTheyAreReleasedAndRequestsBeyondTheBudgetFail) {
  std::optional<HostBudget> budget(std::in_place, 1000);
  std::shared_ptr<void> first = budget->take(600, "state \"w\"").take();
  EXPECT_EQ(budget->in_use(), 600);
  const Result<std::shared_ptr<void>> second = budget->take(401, "state \"v\"");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(second.error().what(),
              HasSubstr("state \"v\": does not fit into the host's memory for suspended programs "
                        "and texts: needs 401 B, of 1000 B there 400 B are free"));
  EXPECT_EQ(budget->in_use(), 600);
  std::shared_ptr<void> third = budget->take(400, "state \"v\"").take();
  first = nullptr;
  EXPECT_EQ(budget->in_use(), 400);
  budget.reset();
  third = nullptr;
}

TEST(HostBudgetTest, AnOwnerHasAtMostHalfOfTheBudget) {
  HostBudget budget(1000);
  std::shared_ptr<void> anns = budget.charge(300, "text \"a\"", "ann").take();
  const Result<std::shared_ptr<void>> more = budget.charge(201, "text \"b\"", "ann");
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(more.error().what(),
              HasSubstr("text \"b\": owner \"ann\" has 300 B of the host's memory for texts: "
                        "expected at most 500 B, half of it, got 201 B more"));
  const std::shared_ptr<void> bobs = budget.charge(500, "text \"b\"", "bob").take();
  EXPECT_EQ(budget.in_use(), 0) << "what is charged to owners is taken once, by itself";
  anns = nullptr;
  EXPECT_TRUE(budget.charge(500, "text \"c\"", "ann").ok());
  EXPECT_FALSE(budget.charge(1, "text \"c\"", "bob").ok());
}

TEST(BufferTest, ABufferThatLeavesItsDeviceFreesItsBytesAndReturnsOnlyWhereItFits) {
  const auto memory = std::make_shared<DeviceMemory>("device", 1024);
  BufferPtr buffer = allocate_buffer(*memory, 768, "state \"w\"");
  buffer->leave_device();
  buffer->leave_device();
  EXPECT_EQ(memory->in_use(), 0);
  BufferPtr other = allocate_buffer(*memory, 512, "another");
  const Result<void> refused = buffer->join_device("state \"w\"");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().what(), HasSubstr("state \"w\": does not fit"));
  other = nullptr;
  EXPECT_TRUE(buffer->join_device("state \"w\"").ok());
  EXPECT_EQ(memory->in_use(), 768);
  buffer->leave_device();
  buffer = nullptr;
  EXPECT_EQ(memory->in_use(), 0) << "what was gone is not given back twice";
}

}  // namespace
}  // namespace gangway
