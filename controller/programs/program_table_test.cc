#include "controller/programs/program_table.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>

#include "protocol/text_limits.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class ProgramTableTest : public ControllerTest {
 protected:
  ProgramTable& programs_ = controller_.programs();
};

TEST_F(ProgramTableTest, AnOwnerHasOneLiveProgramOfAName) {
  FakeClient other;
  const auto named = [&](const std::string& owner, TakenName taken) {
    return programs_.add("tester", owner, other, {}, taken);
  };
  EXPECT_THROW(named("ada", TakenName::kRefused), Error);
  EXPECT_EQ(controller_.counts().clients, 1u);
  EXPECT_EQ(programs_.open(named("bob", TakenName::kRefused)).name, "tester");
  EXPECT_EQ(programs_.open(named("ada", TakenName::kNumbered)).name, "tester-2");
  controller_.session_closed(session_);
  EXPECT_EQ(programs_.open(named("ada", TakenName::kRefused)).name, "tester");
}

// Names are written down, and read when the next controller starts.
TEST_F(ProgramTableTest, NamesThatCouldNotBeReadBackAreRefused) {
  const auto program = [&](const std::string& name) {
    return error_of([&] { programs_.add(name, "ada", client_, {}, TakenName::kRefused); }).kind();
  };
  for (const std::string& name :
       {std::string(), std::string("caf\xE9"), std::string(kProgramNameBytesMax + 1, 'n')})
    EXPECT_EQ(program(name), ErrorKind::kInvalid) << name;
  EXPECT_EQ(controller_.counts().clients, 1u);
}

TEST_F(ProgramTableTest, AShareBeyondItsBoundsIsRefused) {
  FakeClient other;
  EXPECT_THROW(programs_.add("greedy", "ada", other, {.weight = 1e9}), Error);
  EXPECT_THROW(programs_.open(session_).set_share({.weight = -1}), Error);
  EXPECT_EQ(controller_.counts().clients, 1u);
}

TEST_F(ProgramTableTest, AProgramThatHasEndedIsFoundInNoWayButByItsLog) {
  programs_.asks_for_devices(session_);
  EXPECT_EQ(programs_.find("ada", "tester"), session_);
  EXPECT_TRUE(programs_.end(session_, "the test ends it"));
  EXPECT_FALSE(programs_.end(session_, "again"));
  EXPECT_EQ(programs_.find(session_), nullptr);
  EXPECT_EQ(programs_.find("ada", "tester"), std::nullopt);
  EXPECT_EQ(error_of([&] { programs_.open(session_); }).kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(programs_.find_log("ada", "tester"), session_);
  EXPECT_THAT(programs_.log_of(session_)->read(0).lines.back().text, HasSubstr("the test ends it"));
  controller_.session_closed(session_);  // Does nothing, since the program has ended.
}

class ReportTest : public ProgramTableTest {
 protected:
  Reported reported() { return controller_.program_counts().at(0).reported; }

  void expect_refused(const Reported& numbers, const std::string& why) {
    try {
      programs_.open(session_).report(numbers);
      ADD_FAILURE() << "taken, where \"" << why << "\" was expected";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }

  static Reported numbers(size_t count) {
    Reported all;
    for (size_t i = 0; i < count; ++i)
      all.push_back({"number_" + std::to_string(i), static_cast<double>(i)});
    return all;
  }
};

TEST_F(ReportTest, ReportsAtTheBoundsOfNumbersAndNamesAreKept) {
  programs_.open(session_).report(numbers(kReportedMax));
  ASSERT_EQ(reported().size(), kReportedMax);
  EXPECT_EQ(reported().back().name, "number_15");
  EXPECT_EQ(reported().back().value, 15);
  const std::string longest(kPlainNameBytesMax, 'n');
  programs_.open(session_).report({{longest, 1}});
  ASSERT_EQ(reported().size(), 1u);
  EXPECT_EQ(reported()[0].name, longest);
}

TEST_F(ReportTest, ReportsBeyondTheBoundsAreRefusedAndTheEarlierReportStays) {
  programs_.open(session_).report({{"step", 7}});
  expect_refused(numbers(kReportedMax + 1), "expected at most 16 numbers, got 17");
  const std::string any_name = "expected names of 1 to 64 letters";
  expect_refused({{std::string(kPlainNameBytesMax + 1, 'n'), 1}}, any_name);
  expect_refused({{"", 1}}, any_name);
  expect_refused({{"tokens a second", 1}}, any_name);
  expect_refused({{"loss\n\x1b[2J", 1}}, any_name);
  expect_refused({{"loss", 1}, {"step", 8}, {"loss", 2}}, "\"loss\" stands there twice");
  ASSERT_EQ(reported().size(), 1u);
  EXPECT_EQ(reported()[0].name, "step");
  EXPECT_EQ(reported()[0].value, 7);
}

TEST_F(ReportTest, ALossThatIsNotFiniteIsKeptAsItIs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  programs_.open(session_).report(
      {{"loss", std::nan("")}, {"up", kInfinity}, {"down", -kInfinity}});
  ASSERT_EQ(reported().size(), 3u);
  EXPECT_TRUE(std::isnan(reported()[0].value));
  EXPECT_EQ(reported()[1].value, kInfinity);
  EXPECT_EQ(reported()[2].value, -kInfinity);
}

TEST_F(ReportTest, AFloodOfReportsLeavesTheNewestAlone) {
  for (size_t i = 0; i < 10'000; ++i)
    programs_.open(session_).report({{"number_" + std::to_string(i), static_cast<double>(i)}});
  ASSERT_EQ(reported().size(), 1u);
  EXPECT_EQ(reported()[0].name, "number_9999");
  EXPECT_EQ(reported()[0].value, 9999);
  programs_.open(session_).report({});
  EXPECT_THAT(reported(), IsEmpty());
}

TEST_F(ReportTest, AClientThatIsGoneReportsNothing) {
  programs_.open(session_).report({{"step", 7}});
  controller_.session_closed(session_);
  EXPECT_THROW(programs_.open(session_).report({{"step", 8}}), Error);
  EXPECT_THAT(controller_.program_counts(), IsEmpty());
}

}  // namespace
}  // namespace gangway
