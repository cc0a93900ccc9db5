// Numbers that a program reports of itself, such as its step and its loss, for people who look at
// the cluster.
//
// `gangway ps` and `gangway top` show "step", "loss" and "tokens_per_s" in columns of their own;
// --json has all of them. A new report takes the place of the one before it.
//
// Threads: values.
// Errors: require_reported() throws kInvalid, naming `who`.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/plain_name.h"

namespace gangway {

struct ReportedNumber {
  std::string name;  // 1 to 64 letters, digits, '-', '_' or '.'.
  double value = 0;  // May be infinite or NaN, since a loss may be so.
};
using Reported = std::vector<ReportedNumber>;

inline constexpr size_t kReportedMax = 16;  // Numbers of one program.

inline void require_reported(const std::string& who, const Reported& numbers) {
  GW_REQUIRE(numbers.size() <= kReportedMax, who, ": report: expected at most ", kReportedMax,
             " numbers, got ", numbers.size());
  std::set<std::string_view> names;
  for (const ReportedNumber& number : numbers) {
    GW_REQUIRE(is_plain_name(number.name), who, ": report: expected names of 1 to ",
               kPlainNameBytesMax, " letters, digits, '-', '_' and '.'");
    GW_REQUIRE(names.insert(number.name).second, who, ": report: \"", number.name,
               "\" stands there twice");
  }
}

}  // namespace gangway
