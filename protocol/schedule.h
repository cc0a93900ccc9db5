// Schedule: the value that a scalar input has in each step of a repetition, a small object that a
// client sends once, so that the controller can enqueue steps without it.
//
// Threads: values and pure functions.
// Errors: require_schedule() and require_values() throw kInvalid, naming `who`.
// Cost: O(1) a step.
//
// Example:
//   const Schedule step = Schedule::linear(1, 1);  // 1, 2, 3 ...
//   const Schedule lr = Schedule::warmup_cosine({.peak = 1e-3, .warmup = 50, .steps = 1000});
//   const double rate_of_step_10 = value_at(lr, 10);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/types/type.h"

namespace gangway {

// first + slope * i in step i, which is counted from 0.
struct LinearSchedule {
  double first = 0, slope = 0;
  bool operator==(const LinearSchedule&) const = default;
};

// A linear warm-up to `peak` in `warmup` steps, then half a cosine down to peak * final_share in
// step `steps`, where it stays. Step 0 of the repetition is step `begin` here.
struct WarmupCosine {
  double peak = 1e-3;
  int64_t warmup = 0;
  int64_t steps = 0;
  double final_share = 0;
  int64_t begin = 0;
  bool operator==(const WarmupCosine&) const = default;
};

struct Schedule {
  using List = std::vector<double>;  // One for each step; the last one stays.
  std::variant<LinearSchedule, WarmupCosine, List> form = LinearSchedule();

  static Schedule constant(double value) { return {LinearSchedule{value, 0}}; }
  static Schedule linear(double first, double slope) { return {LinearSchedule{first, slope}}; }
  static Schedule warmup_cosine(const WarmupCosine& form) { return {form}; }
  static Schedule list(List values) { return {std::move(values)}; }
  bool operator==(const Schedule&) const = default;
};

inline constexpr size_t kScheduleValuesMax = size_t{1} << 16;  // Limit on the values of a list.

void require_schedule(const std::string& who, const Schedule& schedule);
// Refuses values that i32 and bool don't have (0.5, or a count beyond 2^31 - 1) in any of the first
// `steps` steps: bytes_at() would round them. Values of float types are rounded as usual.
void require_values(const std::string& who, const Schedule& schedule, DType dtype, int64_t steps);
// Value in a step. The schedule must satisfy require_schedule().
double value_at(const Schedule& schedule, int64_t step);

// An input of a repeated program: one scalar after another, or the same bytes in every step.
struct ScheduledInput {
  uint32_t input = 0;  // Index into the plan's inputs.
  std::variant<Schedule, std::vector<std::byte>> value;
};

// The bytes that the input has in this step: of a schedule the nearest value of its element type.
std::vector<std::byte> bytes_at(const ScheduledInput& input, const Type& type, int64_t step);

}  // namespace gangway
