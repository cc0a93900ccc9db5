#include "protocol/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/types/literal.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

double value_of(const LinearSchedule& form, int64_t step) {
  return form.first + form.slope * static_cast<double>(step);
}

// Computes the same bits as programs/optim/schedule.h.
double value_of(const WarmupCosine& form, int64_t step) {
  const int64_t at = form.begin + step;
  if (at < form.warmup)
    return form.peak * static_cast<double>(at) / static_cast<double>(form.warmup);
  const double done = static_cast<double>(at - form.warmup) /
                      static_cast<double>(std::max<int64_t>(1, form.steps - form.warmup));
  const double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
  return form.peak * (form.final_share + (1.0 - form.final_share) * wave);
}

double value_of(const Schedule::List& values, int64_t step) {
  return values[std::min(static_cast<size_t>(step), values.size() - 1)];
}

}  // namespace

void require_schedule(const std::string& who, const Schedule& schedule) {
  if (const auto* list = std::get_if<Schedule::List>(&schedule.form)) {
    GW_REQUIRE(!list->empty() && list->size() <= kScheduleValuesMax, who,
               ": a list of values: expected 1 to ", kScheduleValuesMax, " of them, got ",
               list->size());
  }
  if (const auto* cosine = std::get_if<WarmupCosine>(&schedule.form)) {
    constexpr int64_t kStepsMax = int64_t{1} << 40;
    const auto fits = [](int64_t steps) { return steps >= 0 && steps <= kStepsMax; };
    GW_REQUIRE(fits(cosine->warmup) && fits(cosine->steps) && fits(cosine->begin), who,
               ": warm-up and cosine: expected 0 to ", kStepsMax, " steps, got ", cosine->warmup,
               " of warm-up, ", cosine->steps, " in all, from step ", cosine->begin);
  }
}

void require_values(const std::string& who, const Schedule& schedule, DType dtype, int64_t steps) {
  if (dtype != DType::kI32 && dtype != DType::kBool) return;
  GW_REQUIRE(!std::holds_alternative<WarmupCosine>(schedule.form), who,
             ": warm-up and cosine give fractions, and the input is ", to_string(dtype));
  const auto require = [&](int64_t step) {
    const auto mistake = number_mistake(dtype, value_at(schedule, step));
    GW_REQUIRE(!mistake, who, ": the value in step ", step, " ", mistake.value_or(""));
  };
  if (const auto* list = std::get_if<Schedule::List>(&schedule.form)) {
    const int64_t size = std::min(steps, static_cast<int64_t>(list->size()));
    for (int64_t step = 0; step < size; ++step) require(step);
    return;
  }
  // A line of a whole slope does not leave the whole numbers, nor the range of the type between its
  // ends.
  for (const int64_t step : {int64_t{0}, std::min<int64_t>(1, steps - 1), steps - 1}) require(step);
  const double slope = std::get<LinearSchedule>(schedule.form).slope;
  GW_REQUIRE(steps <= 1 || slope == std::trunc(slope), who, ": expected a whole slope in ",
             to_string(dtype), ", got ", slope);
}

double value_at(const Schedule& schedule, int64_t step) {
  return std::visit([step](const auto& form) { return value_of(form, step); }, schedule.form);
}

std::vector<std::byte> bytes_at(const ScheduledInput& input, const Type& type, int64_t step) {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&input.value)) return *bytes;
  Literal scalar = filled(type, value_at(std::get<Schedule>(input.value), step));
  round_values(scalar);
  return to_bytes(scalar);
}

}  // namespace gangway
