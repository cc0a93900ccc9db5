#include "controller/scheduler/earlier_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/base/error.h"

namespace gangway {
namespace {

double value_of(const WarmupCosine& form, int64_t step) {
  const int64_t at = form.begin + step;
  if (at < form.warmup)
    return form.peak * static_cast<double>(at) / static_cast<double>(form.warmup);
  const double done = static_cast<double>(at - form.warmup) /
                      static_cast<double>(std::max<int64_t>(1, form.steps - form.warmup));
  const double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
  return form.peak * (form.final_share + (1.0 - form.final_share) * wave);
}

double value_of(const EarlierSchedule::List& values, int64_t step) {
  return values[std::min(static_cast<size_t>(step), values.size() - 1)];
}

}  // namespace

double EarlierSchedule::value_at(int64_t step) const {
  return std::visit([step](const auto& one) { return value_of(one, step); }, form);
}

size_t EarlierSchedule::bytes() const { return sizeof(*this) + list_size() * sizeof(double); }

size_t EarlierSchedule::list_size() const {
  const auto* list = std::get_if<List>(&form);
  return list == nullptr ? 0 : list->size();
}

void require_schedule(const std::string& who, const EarlierSchedule& schedule) {
  if (const auto* list = std::get_if<EarlierSchedule::List>(&schedule.form)) {
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

}  // namespace gangway
