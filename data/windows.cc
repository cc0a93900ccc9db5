#include "data/windows.h"

#include <algorithm>
#include <cstddef>

#include "data/permutation.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"

namespace gangway {
namespace {

uint64_t checked_seq(std::string_view text, const WindowOptions& options) {
  GW_REQUIRE(options.seq >= 2 && options.batch >= 1,
             "windows: expected seq of at least 2 and batch of at least 1, got seq ", options.seq,
             ", batch ", options.batch);
  auto seq = static_cast<uint64_t>(options.seq);
  GW_REQUIRE(text.size() >= seq, "windows: the text is too short: expected at least ", seq,
             " bytes, got ", text.size());
  return seq;
}

template <class Windows>
void fill_rows(const Windows& windows, std::string_view text, const WindowOptions& options,
               uint64_t position, IndexRange rows, IndexRange tokens, std::span<int32_t> out) {
  GW_REQUIRE(0 <= rows.begin && rows.begin <= rows.end && rows.end <= options.batch,
             "windows: rows ", rows.begin, " to ", rows.end, " of a batch of ", options.batch);
  GW_REQUIRE(0 <= tokens.begin && tokens.begin <= tokens.end && tokens.end <= options.seq,
             "windows: tokens ", tokens.begin, " to ", tokens.end, " of rows of ", options.seq);
  const auto first = static_cast<size_t>(tokens.begin);
  const auto count = static_cast<size_t>(tokens.end - tokens.begin);
  GW_REQUIRE(out.size() == static_cast<size_t>(rows.end - rows.begin) * count,
             "windows: expected room for ", rows.end - rows.begin, " x ", count, " tokens, got ",
             out.size());
  int32_t* to = out.data();
  for (int row = rows.begin; row < rows.end; ++row, to += count) {
    std::string_view window = text.substr(windows.start(position, row) + first, count);
    std::transform(window.begin(), window.end(), to,
                   [](char byte) { return static_cast<unsigned char>(byte); });
  }
}

}  // namespace

ShuffledWindows::ShuffledWindows(std::string_view text, const WindowOptions& options)
    : text_(text), options_(options) {
  uint64_t seq = checked_seq(text, options);
  // The number of windows that fit from every offset below seq. A text of less than two windows has
  // fewer offsets.
  windows_ = std::max<uint64_t>(1, (text.size() - seq + 1) / seq);
  offsets_ = std::min(seq, text.size() - windows_ * seq + 1);
}

uint64_t ShuffledWindows::start(uint64_t position, int row) const {
  uint64_t sample = position * static_cast<uint64_t>(options_.batch) + static_cast<uint64_t>(row);
  uint64_t epoch = sample / windows_;
  Rng random = Rng(options_.seed).fork(epoch);
  uint64_t offset = random.below(offsets_);
  uint64_t window = Permutation(windows_, random.next_u64())(sample % windows_);
  return offset + window * static_cast<uint64_t>(options_.seq);
}

void ShuffledWindows::fill(uint64_t position, IndexRange rows, IndexRange tokens,
                           std::span<int32_t> out) const {
  fill_rows(*this, text_, options_, position, rows, tokens, out);
}

SequentialWindows::SequentialWindows(std::string_view text, const WindowOptions& options)
    : text_(text), options_(options) {
  uint64_t seq = checked_seq(text, options), stride = seq - 1;
  windows_ = ceil_div(text.size() - 1, stride);
}

uint64_t SequentialWindows::batches() const {
  auto batch = static_cast<uint64_t>(options_.batch);
  return ceil_div(windows_, batch);
}

uint64_t SequentialWindows::start(uint64_t position, int row) const {
  auto seq = static_cast<uint64_t>(options_.seq);
  uint64_t sample = position * static_cast<uint64_t>(options_.batch) + static_cast<uint64_t>(row);
  return std::min(sample % windows_ * (seq - 1), text_.size() - seq);
}

void SequentialWindows::fill(uint64_t position, IndexRange rows, IndexRange tokens,
                             std::span<int32_t> out) const {
  GW_REQUIRE(position < batches(), "windows: batch ", position, " of ", batches());
  fill_rows(*this, text_, options_, position, rows, tokens, out);
}

}  // namespace gangway
