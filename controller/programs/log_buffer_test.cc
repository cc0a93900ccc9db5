#include "controller/programs/log_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/rng.h"
#include "runtime/fibers/reactor.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::string> texts(const ProgramLog& log) {
  std::vector<std::string> texts;
  for (const LoggedLine& line : log.lines) texts.push_back(line.text);
  return texts;
}

class LogBufferTest : public ::testing::Test {
 protected:
  void pass(int64_t ms) {
    WaitQueue().wait_until_ns("for time to pass", reactor_->clock().now_ns() + ms * 1'000'000);
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated({.seed = tests::test_seed()});
  LogBuffer log_{reactor_->clock(), SessionId(1)};
};

TEST_F(LogBufferTest, LinesHaveNumbersTimesAndWhereTheyCameFrom) {
  reactor_->run([&] {
    log_.say("its client has connected");
    pass(3000);
    log_.say_of_client(0, {"step 1", "step 2"});
  });
  const ProgramLog log = log_.read(0);
  EXPECT_THAT(texts(log), ElementsAre("its client has connected", "step 1", "step 2"));
  EXPECT_EQ(log.lines[2].number, 3u);
  EXPECT_EQ(log.lines[2].time_ns - log.lines[0].time_ns, 3'000'000'000);
  EXPECT_FALSE(log.lines[0].of_program);
  EXPECT_TRUE(log.lines[1].of_program);
  EXPECT_EQ(log.program, 1u);
  EXPECT_EQ(log.last, 3u);
  EXPECT_FALSE(log.ended);
  EXPECT_THAT(texts(log_.read(2)), ElementsAre("step 2"));
  EXPECT_THAT(texts(log_.read(3)), ElementsAre());
  EXPECT_THAT(texts(log_.read(~uint64_t{0})), ElementsAre());
}

TEST_F(LogBufferTest, TheNewestLinesAreKeptWithinBothBoundsWhateverIsSaid) {
  Rng rng(tests::test_seed());
  uint64_t said = 0, first = 0;
  for (int call = 0; call < 100; ++call) {
    std::vector<std::string> lines(rng.below(kLogLinesOfCallMax + 1));
    for (std::string& line : lines) line.assign(rng.below(3 * kLogLineBytesMax), 'x');
    log_.say_of_client(first, lines);
    first += lines.size();
    said += lines.size();
    const ProgramLog log = log_.read(0);
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
  log_.say_of_client(first, std::vector<std::string>(kLogLinesOfCallMax));
  for (int i = 0; i < 10; ++i) log_.say(std::string(2 * kLogLineBytesMax, 'y'));
  EXPECT_THAT(log_.read(0).lines.back().text, EndsWith("(cut: 2048 bytes)"));
}

TEST_F(LogBufferTest, MoreLinesThanACallMayHaveAreRefused) {
  const Error error = error_of(
      [&] { log_.say_of_client(0, std::vector<std::string>(kLogLinesOfCallMax + 1, "x")); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("log: expected at most 256 lines at once, got 257"));
  EXPECT_EQ(log_.read(0).last, 0u);
}

TEST_F(LogBufferTest, RepeatedLinesAreSkippedAndDroppedLinesKeepTheirNumbers) {
  log_.say_of_client(0, {"a", "b"});
  log_.say_of_client(0, {"a", "b"});
  log_.say_of_client(1, {"b", "c"});
  EXPECT_THAT(texts(log_.read(0)), ElementsAre("a", "b", "c"));
  log_.say_of_client(13, {"d"});
  EXPECT_EQ(log_.read(0).lines.back().number, 14u);
  log_.say_of_client(~uint64_t{0}, {"e"});
  EXPECT_EQ(log_.read(14).lines.at(0).number, 15 + (uint64_t{1} << 32));
  log_.client_changed();
  log_.say_of_client(0, {"f"});
  EXPECT_EQ(log_.read(0).lines.back().text, "f");
}

TEST_F(LogBufferTest, OneOfManyRunsThatFailTogetherIsLoggedAndTheOthersAreCounted) {
  reactor_->run([&] {
    const Error why(ErrorKind::kInvalid, "the reason");
    for (int i = 0; i < 1000; ++i) log_.say_run_failed(why);
    EXPECT_THAT(texts(log_.read(0)), ElementsAre("a run has failed: the reason"));
    pass(1000);
    log_.say_run_failed(Error(ErrorKind::kInvalid, "another"));
    log_.say_run_failed(why);
    log_.end("it was closed");
  });
  EXPECT_THAT(texts(log_.read(1)),
              ElementsAre("999 more runs have failed", "a run has failed: another",
                          "1 more run has failed", "it has ended: it was closed"));
}

TEST_F(LogBufferTest, AReaderThatWaitsGetsTheEndOfAProgramWhoseLogIsDropped) {
  reactor_->run([&] {
    auto log = std::make_shared<LogBuffer>(reactor_->clock(), SessionId(2));
    std::optional<ProgramLog> read;
    Fiber waits = reactor_->spawn("wait", [&read, log] { read = log->wait(0, INT64_MAX, {}); });
    pass(1);
    log->end("it was closed");
    log->end("nobody reads this");
    EXPECT_FALSE(log->is_kept());
    log.reset();
    waits.join();
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->ended);
    EXPECT_THAT(texts(*read), ElementsAre("it has ended: it was closed"));
  });
}

TEST_F(LogBufferTest, AWaitForLinesEndsWhenItsClientHasGone) {
  reactor_->run([&] {
    StopSource gone;
    std::optional<Error> why;
    Fiber waits = reactor_->spawn(
        "wait", [&] { why = error_of([&] { log_.wait(0, INT64_MAX, gone.token()); }); });
    pass(1);
    gone.request_stop(Error(ErrorKind::kCancelled, "it has gone"));
    waits.join();
    EXPECT_EQ(why->message(), "it has gone");
  });
}

}  // namespace
}  // namespace gangway
