#include "runtime/base/units.h"

#include <cmath>
#include <cstdio>

#include "runtime/base/cat.h"

namespace gangway {
namespace {

// Three significant digits, as long as the value is below 1000.
std::string three_digits(double value) {
  char text[32];
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string two_parts(long long big, const char* big_unit, long long small,
                      const char* small_unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%lld %s %02lld %s", big, big_unit, small, small_unit);
  return text;
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1023.95 && unit < 5; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string format_duration_ns(int64_t ns) {
  if (ns < 0) return cat("-", format_duration_ns(ns == INT64_MIN ? INT64_MAX : -ns));
  if (ns < 1000) return std::to_string(ns) + " ns";
  const double s = static_cast<double>(ns) * 1e-9;
  if (s < 0.9995e-3) return three_digits(s * 1e6) + " us";
  if (s < 0.9995) return three_digits(s * 1e3) + " ms";
  if (s < 59.95) return three_digits(s) + " s";
  const long long seconds = std::llround(s);
  if (seconds < 3600) return two_parts(seconds / 60, "min", seconds % 60, "s");
  return two_parts(seconds / 3600, "h", seconds % 3600 / 60, "min");
}

std::string format_count(double count) {
  static constexpr const char* kUnits[] = {" k", " M", " G", " T"};
  if (count < 0) return cat("-", format_count(-count));
  if (count < 999.5) {
    return count == std::floor(count) ? std::to_string(static_cast<int>(count))
                                      : three_digits(count);
  }
  double value = count / 1000;
  int unit = 0;
  for (; value >= 999.5 && unit < 3; ++unit) value /= 1000;
  return three_digits(value) + kUnits[unit];
}

}  // namespace gangway
