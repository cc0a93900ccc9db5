#include "controller/programs/ended_logs.h"

#include <gtest/gtest.h>

#include "runtime/base/cat.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

class EndedLogsTest : public ControllerTest {
 protected:
  void add(uint64_t id, const std::string& owner, const std::string& name) {
    const SessionId program(id);
    logs_.add(program, {owner, name, std::make_shared<LogBuffer>(reactor_->clock(), program)});
  }

  EndedLogs logs_;
};

TEST_F(EndedLogsTest, TheNewestProgramOfANameIsFoundAndTheOlderOneIsForgotten) {
  add(1, "ada", "trainer");
  add(2, "bob", "trainer");
  EXPECT_EQ(logs_.find("ada", "trainer"), SessionId(1));
  EXPECT_EQ(logs_.find("ada", "train"), std::nullopt);
  EXPECT_EQ(logs_.find("ada", "trainer", 2), std::nullopt);
  EXPECT_EQ(logs_.find("bob", "trainer", 2), SessionId(2));
  EXPECT_EQ(logs_.log_of(SessionId(2))->read(0).program, 2u);
  add(3, "ada", "trainer");
  EXPECT_EQ(logs_.find("ada", "trainer"), SessionId(3));
  EXPECT_EQ(logs_.log_of(SessionId(1)), nullptr);
  EXPECT_EQ(logs_.size(), 2u);
}

TEST_F(EndedLogsTest, LogsOfTheLastEndedProgramsOfEachOwnerAreKept) {
  add(1, "ada", "trainer");
  for (uint64_t id = 3; id < 1003; ++id) add(id, "bob", cat("job-", id));
  EXPECT_EQ(logs_.size(), 1 + EndedLogs::kEndedMax);
  EXPECT_TRUE(logs_.find("ada", "trainer"));
  EXPECT_TRUE(logs_.find("bob", cat("job-", 1003 - EndedLogs::kEndedMax)));
  EXPECT_FALSE(logs_.find("bob", cat("job-", 1002 - EndedLogs::kEndedMax)));
}

TEST_F(EndedLogsTest, AProgramThatHasNotEndedIsFoundBeforeThoseThatHave) {
  FakeClient client;
  const auto begin = [&](const std::string& name) {
    return controller_.programs().add(name, "ada", client);
  };
  const auto end = [&](SessionId id) {
    controller_.programs().log_of(id)->keep();
    controller_.session_closed(id);
  };
  const SessionId one = begin("job");
  EXPECT_EQ(controller_.programs().find_log("ada", "job"), one);
  EXPECT_EQ(controller_.programs().find_log("bob", "job"), std::nullopt);
  EXPECT_EQ(controller_.programs().find_log("ada", "job", one.value + 1), std::nullopt);
  end(one);
  EXPECT_EQ(controller_.programs().find_log("ada", "job"), one);
  EXPECT_TRUE(controller_.programs().log_of(one)->read(0).ended);
  const SessionId two = begin("job");
  EXPECT_EQ(controller_.programs().find_log("ada", "job"), two);
  EXPECT_EQ(controller_.programs().find_log("ada", "job", one.value), one);
  end(two);
  EXPECT_EQ(controller_.programs().find_log("ada", "job"), two);
  EXPECT_EQ(controller_.programs().find_log("ada", "job", one.value), std::nullopt);
}

TEST_F(EndedLogsTest, TheLogOfAClientThatOnlyLookedAroundGoesWithIt) {
  FakeClient client;
  const SessionId looker = controller_.programs().add("gangway ps", "ada", client);
  controller_.session_closed(looker);
  EXPECT_EQ(controller_.programs().find_log("ada", "gangway ps"), std::nullopt);
  EXPECT_EQ(error_of([&] { controller_.programs().log_of(looker); }).kind(),
            ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace gangway
