// Schedule: the value that a scalar input has in each step of a repetition, a small object that a
// client sends once, so that the controller can enqueue steps without it. It is a constant or a
// line. A program computes anything else from an input that counts its steps, as it does learning
// rates (programs/optim/schedule.h).
//
// Threads: values and pure functions.
// Errors: require_values() throws kInvalid, naming `who`.
// Cost: O(1) a step.
//
// Example:
//   const Schedule step = Schedule::linear(1, 1);  // 1, 2, 3 ...
//   const double value_of_step_10 = value_at(step, 10);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/types/type.h"

namespace gangway {

// first + slope * i in step i, which is counted from 0.
struct Schedule {
  double first = 0, slope = 0;

  static Schedule constant(double value) { return {value, 0}; }
  static Schedule linear(double first, double slope) { return {first, slope}; }
  bool operator==(const Schedule&) const = default;
};

// Refuses values that i32 and bool don't have (0.5, or a count beyond 2^31 - 1) in any of the first
// `steps` steps: bytes_at() would round them. Values of float types are rounded as usual.
void require_values(const std::string& who, const Schedule& schedule, DType dtype, int64_t steps);
double value_at(const Schedule& schedule, int64_t step);

// An input of a repeated program: one scalar after another, or the same bytes in every step.
struct ScheduledInput {
  uint32_t input = 0;  // Index into the plan's inputs.
  std::variant<Schedule, std::vector<std::byte>> value;
};

// The bytes of a tensor whose elements are all the nearest value of its element type.
std::vector<std::byte> nearest_bytes(const Type& type, double value);
// The bytes that the input has in this step.
std::vector<std::byte> bytes_at(const ScheduledInput& input, const Type& type, int64_t step);

}  // namespace gangway
