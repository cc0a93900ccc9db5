#include "programs/train/progress.h"

#include <gtest/gtest.h>

namespace gangway::programs {
namespace {

TEST(Progress, SaysStepLossesSpeedBalanceAndTimeLeft) {
  ProgressLine line{
      .step = 12, .steps = 577, .train_loss = 2.5, .tokens_per_s = 20000, .seconds_left = 75};
  EXPECT_EQ(to_string(line), "step 12/577  train 2.500  20000 tokens/s  left 1:15");
  line.heldout_loss = 2.25;
  line.balance = 1.5;
  EXPECT_EQ(
      to_string(line),
      "step 12/577  train 2.500  held-out 2.250  20000 tokens/s  busiest expert 1.50x  left 1:15");
}

TEST(Progress, ALiveLineEndsWithTheLossesAndFitsTheTerminal) {
  const ProgressLine line{.step = 500,
                          .steps = 577,
                          .train_loss = 2.5,
                          .heldout_loss = 2.25,
                          .tokens_per_s = 20000,
                          .balance = 1.5,
                          .seconds_left = 75};
  Sparkline losses;
  for (int step = 0; step < 500; ++step) losses.add(500 - step);
  const std::string begin = "step 500/577  train 2.500  held-out 2.250  20000 tokens/s  ";
  const std::string narrow = live_text(line, losses, 79, false);
  EXPECT_TRUE(narrow.starts_with(begin + "left 1:15  \"")) << narrow;
  EXPECT_TRUE(narrow.ends_with(".__")) << narrow;
  const std::string wide = live_text(line, losses, 199, false);
  EXPECT_TRUE(wide.starts_with(begin + "busiest expert 1.50x  left 1:15  \"\"\"\"")) << wide;
  EXPECT_TRUE(wide.ends_with("____")) << wide;
  EXPECT_GT(wide.size(), to_string(line).size() + 30);
  EXPECT_EQ(live_text(line, losses, 60, true), begin + "l");
  for (size_t columns = 0; columns < 120; ++columns)
    EXPECT_LE(live_text(line, losses, columns, false).size(), columns);
}

TEST(Progress, TheBusiestExpertIsMeasuredByTheEvenShareOfItsOwnLayer) {
  // A pyramid's layers, one of them dense: 1.0 of 2 experts' even share, and 1.6 of 4 experts'.
  const std::vector<float> load = {0.5f, 0.5f, 0, 0, 0.4f, 0.2f, 0.2f, 0.2f};
  EXPECT_NEAR(busiest_expert(load, {0, 2, 4}), 1.6, 1e-6);
  const std::vector<float> narrow = {0.9f, 0.1f, 0, 0, 0.25f, 0.25f, 0.25f, 0.25f};
  EXPECT_NEAR(busiest_expert(narrow, {2, 4}), 1.8, 1e-6);
}

TEST(Progress, LogsTheLinesOfPlainOutputAlsoOnATerminal) {
  ::testing::internal::CaptureStderr();
  std::vector<std::string> logged;
  Progress live(true);
  live.note("before anybody logs");
  live.log_to([&](const std::string& line) { logged.push_back(line); });
  ProgressLine line{.steps = 30};
  for (line.step = 1; line.step <= 30; ++line.step) live.show(line, static_cast<double>(line.step));
  live.note("wrote it");
  ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(logged.size(), 8u);
  EXPECT_EQ(logged[0].substr(0, 9), "step 1/30");
  EXPECT_EQ(logged[1].substr(0, 9), "step 6/30");
  EXPECT_EQ(logged[6].substr(0, 10), "step 30/30");
  EXPECT_EQ(logged[7], "wrote it");
}

TEST(Progress, ShowsACompileOnATerminalOnceItTakesLong) {
  ::testing::internal::CaptureStderr();
  Progress plain(false), live(true);
  plain.show_compile("step: partition", 0.5, 10, 20);
  live.show_compile("step: verify", 0.25, 10, 11.9);
  live.show_compile("step: partition", 0.5, 10, 12);
  live.note("training");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "\r\033[Kcompiling: 50 %  step: partition\r\033[Ktraining\n");
}

TEST(Progress, SaysWhatItWaitsForElsewhereOnceAMinute) {
  ::testing::internal::CaptureStderr();
  Progress plain(false), live(true);
  plain.show_wait("8 devices, for 1.00 s: client 3 of ada holds 8 devices", 1);
  plain.show_wait("8 devices, for 2.00 s", 2);
  plain.show_wait("8 devices, for 61.0 s", 61);
  live.show_wait("4 devices, for 1.00 s", 1);
  live.show_wait("4 devices, for 2.00 s", 2);
  live.note("training");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "waiting for 8 devices, for 1.00 s: client 3 of ada holds 8 devices\n"
            "waiting for 8 devices, for 61.0 s\n"
            "\r\033[Kwaiting for 4 devices, for 1.00 s\r\033[Kwaiting for 4 devices, for 2.00 s"
            "\r\033[Ktraining\n");
}

TEST(Progress, WritesPlainLinesOnlyEverySoOftenButAlwaysTheLast) {
  testing::internal::CaptureStderr();
  Progress progress(false);
  progress.show({.step = 1, .steps = 3}, 0.0);
  progress.show({.step = 2, .steps = 3}, 0.1);
  progress.show({.step = 3, .steps = 3}, 0.2);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("step 1/3"), std::string::npos);
  EXPECT_EQ(text.find("step 2/3"), std::string::npos);
  EXPECT_NE(text.find("step 3/3"), std::string::npos);
}

}  // namespace
}  // namespace gangway::programs
