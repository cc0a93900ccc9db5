#include "bench/chain.h"

#include <algorithm>
#include <chrono>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway::bench {

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Program chain(uint32_t slices, uint32_t nodes) {
  ProgramBuilder b("chain");
  for (uint32_t s = 1; s < slices; ++s) b.slice("second", {});
  Builder next("next");
  next.result("y", next.parameter("x", f32()) + 1.0);
  const auto function = std::make_shared<const Function>(next.build());
  ProgramValue value = b.input_on(0, "x", f32());
  for (uint32_t node = 0; node < nodes; ++node) {
    const uint32_t slice = node % slices;
    if (node > 0 && slices > 1) value = b.transfer(value, slice);
    value = b.call(slice, "next", function, {value})[0];
  }
  b.output_of("y", value);
  return b.build();
}

double us_per_run(const Executable& executable, int runs, uint32_t nodes) {
  std::vector<Run> ahead;
  const double begin = now_us();
  for (int i = 0; i < runs; ++i) ahead.push_back(executable.run({{"x", 1.0f}}));
  const float last = ahead.back()["y"].item<float>();
  const double spent = now_us() - begin;
  const float expected = 1.0f + static_cast<float>(nodes);
  GW_REQUIRE(last == expected, "chain: expected ", expected, ", got ", last);
  return spent / runs;
}

}  // namespace gangway::bench
