#include "controller/programs/named_executables.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class NamedExecutablesTest : public ControllerTest {};

TEST_F(NamedExecutablesTest, ExecutablesOfAProgramHaveNoMoreBytesThanItsRecordMayHave) {
  const PlanId first = compile(session_), second = compile(session_);
  const auto half =
      std::make_shared<const std::vector<std::byte>>(ProgramRecord::kExecutablesBytesMax / 2);
  controller_.programs().open(session_).name_executable(first, {.name = "first", .program = half});
  const Error error = error_of([&] {
    controller_.programs().open(session_).name_executable(second,
                                                          {.name = "second", .program = half});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.what(), HasSubstr("compile: executable \"second\": the executables of its "
                                      "program take "));
  // The second executable fits when it replaces the first one.
  controller_.programs().open(session_).name_executable(second, {.name = "first", .program = half});
  EXPECT_EQ(controller_.programs().open(session_).holdings().executables.size(), 1u);
}

TEST_F(NamedExecutablesTest, ARunThatIsRefusedForItsPositionLeavesTheProgramsRecordReadable) {
  const PlanId plan = compile(session_);
  const auto program = std::make_shared<const std::vector<std::byte>>();
  controller_.programs().open(session_).name_executable(plan, {.name = "step", .program = program});
  const auto position_after = [&](uint64_t position) {
    RunFrame frame{.plan = plan, .run = RunId((session_.value << 40) + ++names_)};
    frame.source_positions = {position};
    controller_.on_message(session_, frame);
    return controller_.programs().open(session_).holdings().executables.at(0).second.position;
  };
  EXPECT_EQ(position_after(7), 8u);
  EXPECT_EQ(position_after(kSourcePositionMax), 8u);
  EXPECT_EQ(position_after(kSourcePositionMax - 1), ProgramRecord::kCountMax);
}

TEST_F(NamedExecutablesTest, ANameGoesFromAnEarlierExecutableToALaterOne) {
  const PlanId first = compile(session_), second = compile(session_);
  const auto program = std::make_shared<const std::vector<std::byte>>();
  controller_.programs().open(session_).name_executable(first,
                                                        {.name = "step", .program = program});
  controller_.programs().open(session_).name_executable(second,
                                                        {.name = "step", .program = program});
  const std::vector<ShownPlan> shown = controller_.shown_graphs().plans(session_);
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_NE(shown[0].name, "step");
  EXPECT_EQ(shown[1].name, "step");
  EXPECT_EQ(controller_.programs().open(session_).holdings().executables.at(0).first, second);
}

TEST_F(NamedExecutablesTest, AnotherClientsPlanGetsNoName) {
  const PlanId plan = compile(session_);
  FakeClient other;
  const SessionId eve = controller_.programs().add("evil", "eve", other);
  const auto program = std::make_shared<const std::vector<std::byte>>();
  const Error error = error_of([&] {
    controller_.programs().open(eve).name_executable(plan, {.name = "step", .program = program});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_TRUE(controller_.programs().open(eve).holdings().executables.empty());
  EXPECT_TRUE(controller_.programs().open(session_).holdings().executables.empty());
}

}  // namespace
}  // namespace gangway
