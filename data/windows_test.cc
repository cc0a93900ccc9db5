#include "data/windows.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace gangway {
namespace {

std::string counting_text(size_t bytes) {
  std::string text(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 131 >> 3);
  return text;
}

std::vector<int32_t> batch_at(const auto& windows, const WindowOptions& options, uint64_t position,
                              IndexRange rows) {
  std::vector<int32_t> out(static_cast<size_t>((rows.end - rows.begin) * options.seq));
  windows.fill(position, rows, {0, options.seq}, out);
  return out;
}

TEST(ShuffledWindows, AnEpochVisitsEachWindowOnceWithoutOverlap) {
  std::string text = counting_text(10007);
  WindowOptions options = {.seq = 16, .batch = 1, .seed = 3};
  ShuffledWindows windows(text, options);
  uint64_t count = windows.windows_per_epoch();
  EXPECT_EQ(count, (10007 - 15) / 16);
  std::set<uint64_t> offsets;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    std::set<uint64_t> starts;
    for (uint64_t i = 0; i < count; ++i) starts.insert(windows.start(epoch * count + i, 0));
    ASSERT_EQ(starts.size(), count);
    offsets.insert(*starts.begin());
    uint64_t expected = *starts.begin();
    EXPECT_LT(expected, 16);
    for (uint64_t start : starts) {
      ASSERT_EQ(start, expected);
      expected += 16;
    }
    EXPECT_LE(*starts.rbegin() + 16, text.size());
  }
  EXPECT_GT(offsets.size(), 1) << "every epoch should cut the text elsewhere";
}

TEST(ShuffledWindows, SomeTokensOfARowAreThoseOfTheWholeRow) {
  const std::string text = counting_text(4096);
  const WindowOptions options = {.seq = 16, .batch = 4, .seed = 1};
  const ShuffledWindows windows(text, options);
  const std::vector<int32_t> rows = batch_at(windows, options, 9, {1, 3});
  std::vector<int32_t> some(2 * 5);
  windows.fill(9, {1, 3}, {7, 12}, some);
  for (size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i], rows[i / 5 * 16 + 7 + i % 5]);
  EXPECT_THROW(windows.fill(9, {1, 3}, {12, 17}, some), Error);
}

TEST(ShuffledWindows, EpochsAndSeedsHaveDifferentOrders) {
  std::string text = counting_text(4096);
  ShuffledWindows a(text, {.seq = 16, .batch = 4, .seed = 1});
  ShuffledWindows b(text, {.seq = 16, .batch = 4, .seed = 2});
  uint64_t count = a.windows_per_epoch() / 4;
  int same_epoch = 0, same_seed = 0, sorted = 0;
  for (uint64_t p = 0; p < count; ++p) {
    same_epoch += a.start(p, 0) / 16 == a.start(p + count, 0) / 16;
    same_seed += a.start(p, 0) / 16 == b.start(p, 0) / 16;
    sorted += a.start(p, 0) < a.start(p, 1);
  }
  EXPECT_LT(same_epoch, 5);
  EXPECT_LT(same_seed, 5);
  EXPECT_LT(sorted, static_cast<int>(count) * 3 / 4);
}

TEST(ShuffledWindows, TokensAreTheBytesOfTheText) {
  std::string text = counting_text(1000);
  WindowOptions options = {.seq = 8, .batch = 3, .seed = 9};
  ShuffledWindows windows(text, options);
  std::vector<int32_t> batch = batch_at(windows, options, 5, {0, 3});
  for (size_t i = 0; i < batch.size(); ++i) {
    size_t at = windows.start(5, static_cast<int>(i / 8)) + i % 8;
    EXPECT_EQ(batch[i], static_cast<unsigned char>(text[at]));
  }
}

TEST(ShuffledWindows, ResumingAtAPositionGivesWhatAnUninterruptedReaderSaw) {
  std::string text = counting_text(3000);
  WindowOptions options = {.seq = 32, .batch = 7, .seed = 4};
  ShuffledWindows first(text, options);
  std::vector<std::vector<int32_t>> seen;
  for (uint64_t p = 0; p < 40; ++p) seen.push_back(batch_at(first, options, p, {0, 7}));
  ShuffledWindows resumed(text, options);
  for (uint64_t p = 23; p < 40; ++p) EXPECT_EQ(batch_at(resumed, options, p, {0, 7}), seen[p]);
}

TEST(ShuffledWindows, AShardOfRowsEqualsThoseRowsOfTheWholeBatch) {
  std::string text = counting_text(3000);
  WindowOptions options = {.seq = 32, .batch = 8, .seed = 4};
  ShuffledWindows windows(text, options);
  for (uint64_t p : {0, 11, 12345}) {
    std::vector<int32_t> joined;
    for (int begin = 0; begin < 8; begin += 2) {
      std::vector<int32_t> shard = batch_at(windows, options, p, {begin, begin + 2});
      joined.insert(joined.end(), shard.begin(), shard.end());
    }
    EXPECT_EQ(joined, batch_at(windows, options, p, {0, 8}));
  }
}

TEST(ShuffledWindows, OneWindowIsEnough) {
  for (size_t bytes : {16, 17, 31, 32}) {
    std::string text = counting_text(bytes);
    WindowOptions options = {.seq = 16, .batch = 2, .seed = 1};
    ShuffledWindows windows(text, options);
    EXPECT_EQ(windows.windows_per_epoch(), 1);
    for (uint64_t p = 0; p < 50; ++p) EXPECT_LE(windows.start(p, 1) + 16, bytes);
  }
  EXPECT_THROW(ShuffledWindows(counting_text(15), {.seq = 16, .batch = 2}), Error);
}

TEST(SequentialWindows, PredictEachByteOnceAndEndWithTheText) {
  std::string text = counting_text(1000);
  WindowOptions options = {.seq = 16, .batch = 8};
  SequentialWindows windows(text, options);
  std::vector<int> predicted(text.size());
  for (uint64_t i = 0; i < windows.windows(); ++i) {
    uint64_t start = windows.start(i / 8, static_cast<int>(i % 8));
    ASSERT_LE(start + 16, text.size());
    for (uint64_t t = 1; t < 16; ++t) ++predicted[start + t];
  }
  EXPECT_EQ(predicted[0], 0);
  int twice = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    EXPECT_GE(predicted[i], 1);
    twice += predicted[i] - 1;
  }
  EXPECT_LT(twice, 15) << "only the last window may overlap";
}

TEST(SequentialWindows, TheLastBatchIsFilledUpFromTheStart) {
  std::string text = counting_text(100);
  WindowOptions options = {.seq = 11, .batch = 4};
  SequentialWindows windows(text, options);
  EXPECT_EQ(windows.windows(), 10);
  EXPECT_EQ(windows.batches(), 3);
  EXPECT_EQ(windows.start(2, 2), 0);
  EXPECT_EQ(windows.start(2, 3), 10);
  EXPECT_THROW(batch_at(windows, options, 3, {0, 4}), Error);
}

TEST(SequentialWindows, RowsOutsideTheBatchAndWrongRoomAreRefused) {
  std::string text = counting_text(100);
  WindowOptions options = {.seq = 10, .batch = 4};
  SequentialWindows windows(text, options);
  EXPECT_THROW(batch_at(windows, options, 0, {0, 5}), Error);
  std::vector<int32_t> small(9);
  EXPECT_THROW(windows.fill(0, {0, 1}, {0, 16}, small), Error);
}

}  // namespace
}  // namespace gangway
