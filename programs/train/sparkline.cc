#include "programs/train/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"

namespace gangway::programs {
namespace {

constexpr size_t kParts = 512;  // Even: when they are full, each two become one.
constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 5> kAscii = {"_", ".", "-", "'", "\""};

template <size_t kLetters>
std::string drawn(const std::vector<double>& means,
                  const std::array<std::string_view, kLetters>& letters) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const double mean : means) {
    if (!std::isfinite(mean)) continue;
    least = std::min(least, mean);
    most = std::max(most, mean);
  }
  // Halves first, since the distance from the least to the greatest may not fit in a double.
  const double range = most / 2 - least / 2;
  std::string text;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      text += '!';
      continue;
    }
    const double height = range > 0 ? (mean / 2 - least / 2) / range : 0;
    text += letters[static_cast<size_t>(std::lround(height * (kLetters - 1)))];
  }
  return text;
}

}  // namespace

bool is_utf8_terminal() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::optional<std::string> value = environment_value(name);
    if (!value) continue;
    std::string& locale = *value;
    std::ranges::transform(locale, locale.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

void Sparkline::add(double value) {
  if (parts_.empty() || parts_.back().values == values_a_part_) {
    if (parts_.size() == kParts) {
      for (size_t i = 0; i < kParts / 2; ++i) {
        const Part& first = parts_[2 * i];
        const Part& second = parts_[2 * i + 1];
        parts_[i] = {first.sum + second.sum, first.values + second.values};
      }
      parts_.resize(kParts / 2);
      values_a_part_ *= 2;
    }
    parts_.emplace_back();
  }
  parts_.back().sum += value;
  ++parts_.back().values;
}

std::string Sparkline::text(size_t columns, bool utf8) const {
  if (parts_.empty() || columns == 0) return "";
  const size_t a_letter = (parts_.size() + columns - 1) / columns;
  std::vector<double> means;
  for (size_t from = 0; from < parts_.size(); from += a_letter) {
    Part all;
    for (size_t i = from; i < std::min(from + a_letter, parts_.size()); ++i) {
      all.sum += parts_[i].sum;
      all.values += parts_[i].values;
    }
    means.push_back(all.sum / static_cast<double>(all.values));
  }
  return utf8 ? drawn(means, kBlocks) : drawn(means, kAscii);
}

}  // namespace gangway::programs
