#include "controller/service/refusal_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "runtime/fibers/reactor.h"
#include "runtime/fibers/wait_queue.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

TEST(RefusalLogTest, AFloodOfRefusalsBecomesALineASecondThatCountsTheOthers) {
  const TempDir dir;
  const std::string file = (dir.path() / "log").string();
  const auto logged = [&] {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    RefusalLog log(reactor->clock(), Logs({.levels = "warn", .file = file}).module("controller"));
    const auto refuse = [&] { log.warn("a connection was refused", "10.0.0.9:4", "no reason"); };
    for (int64_t i = 0; i < RefusalLog::kLinesAtOnce + 7; ++i) refuse();
    const std::string first = logged();
    EXPECT_EQ(std::ranges::count(first, '\n'), RefusalLog::kLinesAtOnce);
    EXPECT_THAT(first, testing::Not(testing::HasSubstr("not_logged")));
    WaitQueue().wait_until_ns("for time to pass", reactor->clock().now_ns() + 1'000'000'000);
    refuse();
    refuse();
    const std::string second = logged().substr(first.size());
    EXPECT_EQ(std::ranges::count(second, '\n'), 1);
    EXPECT_THAT(second, testing::HasSubstr("not_logged=7"));
  });
}

}  // namespace
}  // namespace gangway
