#include "programs/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/error.h"

namespace gangway::programs {
namespace {

// A table op holds whole numbers of 32 bits, so a value is the sum of a few of them, each times a
// power of two that all values share.
constexpr int kDigitBits = 31, kDigitsMax = 4;
constexpr size_t kNumbersMax = 4096;  // One table op holds no more.

DType type_of_rate(const Value& step) {
  return step.dtype() == DType::kI32 ? DType::kF32 : step.dtype();
}

// Returns the exponent e for which all values are at most 2^e in size.
int exponent_of(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most == 0 ? 0 : std::ilogb(most) + 1;
}

// Takes the leading digit out of each value, which is at most 2^exponent in size: its multiple of
// 2^(exponent - kDigitBits) next to it towards 0. The remainders, below that, stay in `values`.
std::vector<int32_t> take_digits(std::vector<double>& values, int exponent) {
  std::vector<int32_t> digits;
  digits.reserve(values.size());
  for (double& value : values) {
    const double digit = std::trunc(std::ldexp(value, kDigitBits - exponent));
    value -= std::ldexp(digit, exponent - kDigitBits);
    digits.push_back(static_cast<int32_t>(digit));
  }
  return digits;
}

// A tensor of these numbers, more than one op holds included.
Value table_of(Builder& builder, std::span<const int32_t> numbers) {
  std::vector<Value> parts;
  for (; !numbers.empty(); numbers = numbers.subspan(std::min(numbers.size(), kNumbersMax))) {
    const auto part = numbers.first(std::min(numbers.size(), kNumbersMax));
    parts.push_back(gangway::table(builder, {part.begin(), part.end()}));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

}  // namespace

Value warmup_cosine(Value step, const CosineSchedule& schedule, Loc loc) {
  const auto& [peak, warmup, steps, final_share] = schedule;
  GW_REQUIRE(warmup >= 0 && steps >= 0, "warmup_cosine: expected 0 or more steps, got ", warmup,
             " of warm-up, ", steps, " in all");
  const LocScope at(loc);
  const Builder::Scope in(step.builder(), "warmup_cosine");
  const Value now = convert(step, DType::kF64);
  const auto rising = static_cast<double>(std::max<int64_t>(1, warmup));
  const auto falling = static_cast<double>(std::max<int64_t>(1, steps - warmup));
  const Value done = (now - static_cast<double>(warmup)) / falling;
  const Value wave = (cos(minimum(1.0, done) * std::numbers::pi) + 1.0) * 0.5;
  const Value fallen = (wave * (1.0 - final_share) + final_share) * peak;
  const Value rate = where(lt(now, static_cast<double>(warmup)), now * peak / rising, fallen);
  return convert(rate, type_of_rate(step));
}

Value table(Value step, const std::vector<double>& values, Loc loc) {
  GW_REQUIRE(!values.empty() && values.size() <= kTableValuesMax, "table: expected 1 to ",
             kTableValuesMax, " values, got ", values.size());
  for (const double value : values)
    GW_REQUIRE(std::isfinite(value), "table: expected finite values, got ", value);
  const LocScope at(loc);
  Builder& builder = step.builder();
  const Builder::Scope in(builder, "table");
  const auto last = static_cast<double>(values.size() - 1);
  const Value index = convert(minimum(maximum(convert(step, DType::kF64), 0.0), last), DType::kI32);
  std::vector<double> rest = values;
  int exponent = exponent_of(values);
  Value sum;
  for (int digit = 0; digit < kDigitsMax; ++digit) {
    const Value digits = take(table_of(builder, take_digits(rest, exponent)), index);
    exponent -= kDigitBits;
    const Value term = convert(digits, DType::kF64) * std::ldexp(1.0, exponent);
    sum = sum.empty() ? term : sum + term;
    if (std::ranges::all_of(rest, [](double value) { return value == 0; })) break;
  }
  return convert(sum, type_of_rate(step));
}

}  // namespace gangway::programs
