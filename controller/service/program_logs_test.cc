#include "controller/service/program_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/cat.h"
#include "runtime/base/rng.h"
#include "runtime/fibers/reactor.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> texts(const ProgramLog& log) {
  std::vector<std::string> texts;
  for (const LoggedLine& line : log.lines) texts.push_back(line.text);
  return texts;
}

class ProgramLogsTest : public ::testing::Test {
 protected:
  static constexpr SessionId kOne{1};

  ProgramLogsTest() { logs_.begin(kOne, "ada", "trainer"); }

  void pass(int64_t ms) {
    WaitQueue().wait_until_ns("for time to pass", reactor_->clock().now_ns() + ms * 1'000'000);
  }
  void end(SessionId program) {
    logs_.keep(program);
    logs_.end(program, "it was closed");
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated({.seed = tests::test_seed()});
  ProgramLogs logs_{reactor_->clock()};
};

TEST_F(ProgramLogsTest, LinesHaveNumbersTimesAndWhereTheyCameFrom) {
  reactor_->run([&] {
    logs_.say(kOne, "its client has connected");
    pass(3000);
    logs_.say_of_program(kOne, 0, {"step 1", "step 2"});
  });
  const ProgramLog log = logs_.read(kOne, 0);
  EXPECT_THAT(texts(log), ElementsAre("its client has connected", "step 1", "step 2"));
  EXPECT_EQ(log.lines[2].number, 3u);
  EXPECT_EQ(log.lines[2].time_ns - log.lines[0].time_ns, 3'000'000'000);
  EXPECT_FALSE(log.lines[0].of_program);
  EXPECT_TRUE(log.lines[1].of_program);
  EXPECT_EQ(log.last, 3u);
  EXPECT_FALSE(log.ended);
  EXPECT_THAT(texts(logs_.read(kOne, 2)), ElementsAre("step 2"));
  EXPECT_THAT(texts(logs_.read(kOne, 3)), ElementsAre());
  EXPECT_THAT(texts(logs_.read(kOne, ~uint64_t{0})), ElementsAre());
}

TEST_F(ProgramLogsTest, TheNewestLinesAreKeptWithinBothBoundsWhateverIsSaid) {
  Rng rng(tests::test_seed());
  uint64_t said = 0, first = 0;
  for (int call = 0; call < 100; ++call) {
    std::vector<std::string> lines(rng.below(kLogLinesOfCallMax + 1));
    for (std::string& line : lines) line.assign(rng.below(3 * kLogLineBytesMax), 'x');
    logs_.say_of_program(kOne, first, lines);
    first += lines.size();
    said += lines.size();
    const ProgramLog log = logs_.read(kOne, 0);
    EXPECT_EQ(log.last, said);
    EXPECT_LE(log.lines.size(), kLogLinesMax);
    size_t bytes = 0;
    for (size_t i = 0; i < log.lines.size(); ++i) {
      EXPECT_EQ(log.lines[i].number, said - (log.lines.size() - 1 - i));
      EXPECT_LE(log.lines[i].text.size(), kLogLineBytesMax + 64);
      bytes += log.lines[i].text.size();
    }
    EXPECT_LE(bytes, kLogBytesMax);
  }
  logs_.say_of_program(kOne, first, std::vector<std::string>(kLogLinesOfCallMax));
  for (int i = 0; i < 10; ++i) logs_.say(kOne, std::string(2 * kLogLineBytesMax, 'y'));
  EXPECT_THAT(logs_.read(kOne, 0).lines.back().text, EndsWith("(cut: 2048 bytes)"));
}

TEST_F(ProgramLogsTest, MoreLinesThanACallMayHaveAreRefused) {
  const Error error = error_of([&] {
    logs_.say_of_program(kOne, 0, std::vector<std::string>(kLogLinesOfCallMax + 1, "x"));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("log: expected at most 256 lines at once, got 257"));
  EXPECT_EQ(logs_.read(kOne, 0).last, 0u);
}

TEST_F(ProgramLogsTest, RepeatedLinesAreSkippedAndDroppedLinesKeepTheirNumbers) {
  logs_.say_of_program(kOne, 0, {"a", "b"});
  logs_.say_of_program(kOne, 0, {"a", "b"});
  logs_.say_of_program(kOne, 1, {"b", "c"});
  EXPECT_THAT(texts(logs_.read(kOne, 0)), ElementsAre("a", "b", "c"));
  logs_.say_of_program(kOne, 13, {"d"});
  EXPECT_EQ(logs_.read(kOne, 0).lines.back().number, 14u);
  logs_.say_of_program(kOne, ~uint64_t{0}, {"e"});
  EXPECT_EQ(logs_.read(kOne, 14).lines.at(0).number, 15 + (uint64_t{1} << 32));
  logs_.client_changed(kOne);
  logs_.say_of_program(kOne, 0, {"f"});
  EXPECT_EQ(logs_.read(kOne, 0).lines.back().text, "f");
}

TEST_F(ProgramLogsTest, OneOfManyRunsThatFailTogetherIsLoggedAndTheOthersAreCounted) {
  reactor_->run([&] {
    const Error why(ErrorKind::kInvalid, "the reason");
    for (int i = 0; i < 1000; ++i) logs_.say_run_failed(kOne, why);
    EXPECT_THAT(texts(logs_.read(kOne, 0)), ElementsAre("a run has failed: the reason"));
    pass(1000);
    logs_.say_run_failed(kOne, Error(ErrorKind::kInvalid, "another"));
    logs_.say_run_failed(kOne, why);
    end(kOne);
  });
  EXPECT_THAT(texts(logs_.read(kOne, 1)),
              ElementsAre("999 more runs have failed", "a run has failed: another",
                          "1 more run has failed", "it has ended: it was closed"));
}

TEST_F(ProgramLogsTest, AWaitForLinesEndsWhenItsClientHasGone) {
  reactor_->run([&] {
    StopSource gone;
    std::optional<Error> why;
    Fiber waits = reactor_->spawn(
        "wait", [&] { why = error_of([&] { logs_.wait(kOne, 0, INT64_MAX, gone.token()); }); });
    pass(1);
    gone.request_stop(Error(ErrorKind::kCancelled, "it has gone"));
    waits.join();
    EXPECT_EQ(why->message(), "it has gone");
  });
}

TEST_F(ProgramLogsTest, ANameFindsTheLiveProgramOrElseTheLastThatHasEnded) {
  EXPECT_EQ(logs_.find("ada", "trainer"), kOne);
  EXPECT_EQ(logs_.find("bob", "trainer"), std::nullopt);
  EXPECT_EQ(logs_.find("ada", "train"), std::nullopt);
  EXPECT_EQ(logs_.find("ada", "trainer", 2), std::nullopt);
  end(kOne);
  EXPECT_EQ(logs_.find("ada", "trainer"), kOne);
  const SessionId two(2), looker(3);
  logs_.begin(two, "ada", "trainer");
  EXPECT_EQ(logs_.find("ada", "trainer"), two);
  EXPECT_EQ(logs_.find("ada", "trainer", 1), kOne);
  end(two);
  EXPECT_EQ(logs_.find("ada", "trainer"), two);
  EXPECT_EQ(logs_.size(), 1u) << "the older one of the name has gone";
  logs_.begin(looker, "ada", "gangway ps");
  logs_.end(looker, "it was closed");
  EXPECT_EQ(logs_.find("ada", "gangway ps"), std::nullopt);
  const Error gone = error_of([&] { logs_.read(looker, 0); });
  EXPECT_EQ(gone.kind(), ErrorKind::kUnavailable);
}

TEST_F(ProgramLogsTest, LogsOfTheLastEndedProgramsOfEachOwnerAreKept) {
  end(kOne);
  logs_.begin(SessionId(2), "bob", "runs on");
  for (uint64_t id = 3; id < 1003; ++id) {
    logs_.begin(SessionId(id), "bob", cat("job-", id));
    end(SessionId(id));
  }
  EXPECT_EQ(logs_.size(), 2 + ProgramLogs::kEndedMax);
  EXPECT_TRUE(logs_.find("ada", "trainer"));
  EXPECT_TRUE(logs_.find("bob", "runs on"));
  EXPECT_TRUE(logs_.find("bob", cat("job-", 1003 - ProgramLogs::kEndedMax)));
  EXPECT_FALSE(logs_.find("bob", cat("job-", 1002 - ProgramLogs::kEndedMax)));
}

}  // namespace
}  // namespace gangway
