// EarlierSchedule: a schedule of a form that only records of earlier releases have: a warm-up with
// a cosine behind it, or a list of values. Programs now compute such values from an input that
// counts their steps. The program of an earlier record takes the values themselves, so its
// repetition goes on with the recorded form.
//
// Threads: values and pure functions.
// Errors: require_schedule() throws kInvalid, naming `who`.
// Cost: O(1) a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gangway {

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

struct EarlierSchedule {
  using List = std::vector<double>;  // One for each step; the last one stays.

  explicit EarlierSchedule(const WarmupCosine& cosine) : form(cosine) {}
  explicit EarlierSchedule(List values) : form(std::move(values)) {}
  double value_at(int64_t step) const;
  size_t bytes() const;      // Memory that it takes.
  size_t list_size() const;  // 0 for a warm-up and cosine.

  const std::variant<WarmupCosine, List> form;
};

inline constexpr size_t kScheduleValuesMax = size_t{1} << 16;  // Limit on the values of a list.

struct EarlierInput {
  uint32_t input = 0;  // Index into the plan's inputs.
  std::shared_ptr<const EarlierSchedule> schedule;
};

void require_schedule(const std::string& who, const EarlierSchedule& schedule);

}  // namespace gangway
