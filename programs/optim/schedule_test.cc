#include "programs/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "client/client.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/interpret/interpret.h"
#include "tests/support/error_of.h"

namespace gangway::programs::schedule_test {
namespace {

using testing::HasSubstr;

// The rate as hosts computed it in f64, before it was ops.
double rate_on_host(const CosineSchedule& schedule, int64_t step) {
  const auto& [peak, warmup, steps, final_share] = schedule;
  if (step < warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const double done = static_cast<double>(step - warmup) /
                      static_cast<double>(std::max<int64_t>(1, steps - warmup));
  const double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
  return peak * (final_share + (1.0 - final_share) * wave);
}

using Trace = std::function<Value(Value step)>;

// Runs the traced ops on these steps.
Literal traced(DType dtype, const std::vector<double>& steps, const Trace& trace) {
  Builder b("rates");
  const Type type{dtype, {static_cast<int64_t>(steps.size())}};
  b.result("rates", trace(b.parameter("steps", type)));
  return interpret(b.build(), {{type, steps}}).at(0);
}

double at_step(const CosineSchedule& schedule, double step) {
  return traced(DType::kF64, {step}, [&](Value at) { return warmup_cosine(at, schedule); })
      .values[0];
}

std::vector<double> looked_up(DType dtype, const std::vector<double>& steps,
                              const std::vector<double>& values) {
  return traced(dtype, steps, [&](Value at) { return table(at, values); }).values;
}

const CosineSchedule kSchedules[] = {
    {.peak = 2e-3, .warmup = 40, .steps = 577, .final_share = 0.05},
    {.peak = 1.0 / 3, .warmup = 0, .steps = 100, .final_share = 0},
    {.peak = 1e-4, .warmup = 1000, .steps = 100, .final_share = 0.1},
    {.peak = 0, .warmup = 1, .steps = 1},
};

TEST(WarmupCosine, WarmsUpLinearlyThenFallsToItsFinalShare) {
  const CosineSchedule lr{.peak = 1.0, .warmup = 10, .steps = 110, .final_share = 0.1};
  EXPECT_DOUBLE_EQ(at_step(lr, 0), 0);
  EXPECT_DOUBLE_EQ(at_step(lr, 1), 0.1);
  EXPECT_DOUBLE_EQ(at_step(lr, 10), 1.0);
  EXPECT_NEAR(at_step(lr, 60), 0.55, 1e-12) << "half way between peak and end";
  EXPECT_NEAR(at_step(lr, 110), 0.1, 1e-12);
  EXPECT_EQ(at_step(lr, 500), at_step(lr, 110)) << "stays at its end";
}

TEST(WarmupCosine, GivesTheBitsThatAHostComputes) {
  std::vector<double> steps;
  for (int step = 0; step <= 1100; ++step) steps.push_back(step);
  for (const CosineSchedule& schedule : kSchedules) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32}) {
      SCOPED_TRACE(cat("peak ", schedule.peak, ", steps in ", to_string(dtype)));
      const Literal rates =
          traced(dtype, steps, [&](Value at) { return warmup_cosine(at, schedule); });
      EXPECT_EQ(rates.type.dtype, dtype == DType::kF64 ? DType::kF64 : DType::kF32);
      for (size_t i = 0; i < steps.size(); ++i) {
        const double on_host = rate_on_host(schedule, static_cast<int64_t>(i));
        if (dtype == DType::kF64) {
          EXPECT_DOUBLE_EQ(rates.values[i], on_host) << i;
        } else {
          EXPECT_EQ(rates.values[i], static_cast<double>(static_cast<float>(on_host))) << i;
        }
      }
    }
  }
}

TEST(WarmupCosine, NegativeCountsOfStepsAreRefused) {
  EXPECT_THAT(error_of([] { at_step({.warmup = -1}, 0); }).what(), HasSubstr("got -1 of warm-up"));
  EXPECT_THAT(error_of([] { at_step({.steps = -7}, 0); }).what(), HasSubstr("-7 in all"));
}

// Each device of a mesh computes the rate for its part of a state.
TEST(WarmupCosine, ATrainingOnManyDevicesHasTheRateOfEachStep) {
  const CosineSchedule schedule{.peak = 0.3, .warmup = 3, .steps = 9, .final_share = 0.05};
  const std::vector<double> momenta = {0.5, 0.1, 1.0 / 3};
  const Client client = connect("local:2x2", {.in_process = true, .memory_bytes = 16 << 20});
  const Slice slice = client.allocate({.devices = 4});
  ProgramBuilder b("descent", slice.mesh({{"data", 4}}));
  const Value w = b.state("w", zeros(f32({8})), {{"data", shard(0)}});
  const Value step = b.input("step", f32());
  const Value rate = warmup_cosine(step, schedule), momentum = table(step - 1.0, momenta);
  b.update(w, w + rate);
  b.output("rate", rate);
  b.output("momentum", momentum);
  const Executable descent = slice.compile(b.build());
  float sum = 0;
  for (int64_t i = 1; i <= 12; ++i) {
    const gangway::Run run = descent.run({{"step", static_cast<float>(i)}});
    const auto on_host = static_cast<float>(rate_on_host(schedule, i));
    EXPECT_EQ(run["rate"].item<float>(), on_host) << i;
    EXPECT_EQ(run["momentum"].item<float>(),
              static_cast<float>(momenta[static_cast<size_t>(std::min<int64_t>(i - 1, 2))]))
        << i;
    sum += on_host;
  }
  EXPECT_THAT(slice.read_state("w").as<float>(), testing::Each(sum));
  // The controller gives the steps.
  const RepeatStatus status = descent.repeat(7, {{"step", Schedule::linear(1, 1)}}).wait();
  EXPECT_EQ(status.done, 7);
  EXPECT_EQ(status.outputs.at(0).value, static_cast<float>(rate_on_host(schedule, 7)));
}

TEST(Table, GivesTheValueOfEachStepAndTheFirstAndLastOneBesideThem) {
  const std::vector<double> values = {0.25, -3, 0};
  const std::vector<double> steps = {-7, 0, 1, 2, 3, 1e9};
  const std::vector<double> expected = {0.25, 0.25, -3, 0, 0, 0};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32})
    EXPECT_EQ(looked_up(dtype, steps, values), expected) << to_string(dtype);
  EXPECT_EQ(looked_up(DType::kF32, {0.99, 1.5}, values), (std::vector<double>{0.25, -3}));
  EXPECT_EQ(looked_up(DType::kF32, {0, 5}, {0}), (std::vector<double>{0, 0}));
}

TEST(Table, KeepsTheBitsOfValuesOfAllSizes) {
  const std::vector<double> values = {1.0 / 3, -1e-3, 1e-15, -0.9999999999999999, 2e-20, 0.7};
  std::vector<double> steps, floats;
  for (size_t i = 0; i < values.size(); ++i) {
    steps.push_back(static_cast<double>(i));
    floats.push_back(static_cast<double>(static_cast<float>(values[i])));
  }
  EXPECT_EQ(looked_up(DType::kF64, steps, values), values);
  EXPECT_EQ(looked_up(DType::kF32, steps, values), floats);
}

TEST(Table, AListOfTheLargestSizeIsTakenAndALongerOneIsNot) {
  std::vector<double> values(kTableValuesMax);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 7;
  EXPECT_EQ(looked_up(DType::kF64, {65'535, 12'345}, values),
            (std::vector<double>{values[65'535], values[12'345]}));
  ProgramBuilder b("largest");
  b.output("rate", table(b.input("step", f32()), values));
  EXPECT_NO_THROW(b.build()) << "a node holds too many of the values";
  values.push_back(0);
  EXPECT_THAT(error_of([&] { looked_up(DType::kF32, {0}, values); }).what(),
              HasSubstr("expected 1 to 65536 values, got 65537"));
  EXPECT_THAT(error_of([] { looked_up(DType::kF32, {0}, {}); }).what(), HasSubstr("got 0"));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(error_of([] { looked_up(DType::kF32, {0}, {1, kInf}); }).what(),
              HasSubstr("expected finite values, got inf"));
}

}  // namespace
}  // namespace gangway::programs::schedule_test
