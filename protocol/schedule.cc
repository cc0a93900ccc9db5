#include "protocol/schedule.h"

#include <algorithm>
#include <cmath>

#include "ir/types/number.h"
#include "runtime/base/error.h"

namespace gangway {

void require_values(const std::string& who, const Schedule& schedule, DType dtype, int64_t steps) {
  if (dtype != DType::kI32 && dtype != DType::kBool) return;
  // A line of a whole slope does not leave the whole numbers, nor the range of the type between its
  // ends.
  for (const int64_t step : {int64_t{0}, std::min<int64_t>(1, steps - 1), steps - 1}) {
    const auto mistake = number_mistake(dtype, value_at(schedule, step));
    GW_REQUIRE(!mistake, who, ": the value in step ", step, " ", mistake.value_or(""));
  }
  GW_REQUIRE(steps <= 1 || schedule.slope == std::trunc(schedule.slope), who,
             ": expected a whole slope in ", to_string(dtype), ", got ", schedule.slope);
}

double value_at(const Schedule& schedule, int64_t step) {
  return schedule.first + schedule.slope * static_cast<double>(step);
}

std::vector<std::byte> nearest_bytes(const Type& type, double value) {
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  for (size_t at = 0; at < bytes.size(); at += size_of(type.dtype))
    store_number(type.dtype, value, bytes.data() + at);
  return bytes;
}

std::vector<std::byte> bytes_at(const ScheduledInput& input, const Type& type, int64_t step) {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&input.value)) return *bytes;
  return nearest_bytes(type, value_at(std::get<Schedule>(input.value), step));
}

}  // namespace gangway
