#include "programs/train/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace gangway::programs {
namespace {

Sparkline of(const std::vector<double>& values) {
  Sparkline line;
  for (const double value : values) line.add(value);
  return line;
}

TEST(Sparkline, ShowsEachValueWhileThereIsRoom) {
  const Sparkline line = of({8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_EQ(line.text(8, true), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(line.text(20, true), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(of({5, 4, 3, 2, 1}).text(8, false), "\"'-._");
}

TEST(Sparkline, ShowsMeansOfEquallyManyWhereThereIsLessRoom) {
  EXPECT_EQ(of({10, 12, 7, 9, 4, 6, 1, 3}).text(4, true), "█▆▃▁");
  EXPECT_EQ(of({1, 1, 1, 8}).text(3, true), "▁█");
  EXPECT_EQ(of({1, 2, 3}).text(0, true), "");
}

TEST(Sparkline, ShowsAllOfALongJob) {
  Sparkline line;
  constexpr int kValues = 100'000;
  for (int i = 0; i < kValues; ++i) line.add(kValues - i);
  // The 8 parts are equal, and the last may be shorter: each lies a step below the one before.
  const std::string text = line.text(8, true);
  EXPECT_TRUE(text.starts_with("█▇▆▅▄▃▂")) << text;
  EXPECT_EQ(text.substr(text.size() - 3), "▁");
}

TEST(Sparkline, MarksWhatIsNotFiniteAndTakesAnyFiniteNumber) {
  const double nan = std::nan(""), most = std::numeric_limits<double>::max();
  EXPECT_EQ(of({3, nan, 1}).text(8, true), "█!▁");
  EXPECT_EQ(of({nan, nan}).text(8, false), "!!");
  EXPECT_EQ(of({most, -most, 0}).text(8, false), "\"_-");
  EXPECT_EQ(of({2, 2}).text(8, true), "▁▁");
  EXPECT_EQ(Sparkline().text(8, true), "");
}

TEST(Sparkline, TheLocaleSaysWhetherBlocksAreShown) {
  const auto is_utf8 = [](const char* all, const char* lang) {
    unsetenv("LC_CTYPE");
    setenv("LC_ALL", all, 1);
    setenv("LANG", lang, 1);
    return is_utf8_terminal();
  };
  EXPECT_TRUE(is_utf8("", "en_GB.UTF-8"));
  EXPECT_TRUE(is_utf8("C.utf8", "C"));
  EXPECT_FALSE(is_utf8("C", "en_GB.UTF-8"));
  EXPECT_FALSE(is_utf8("", ""));
}

}  // namespace
}  // namespace gangway::programs
