// A training step small enough to know its results, for tests of hosts on any device.
//
// Threads: pure.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "executor/host/host.h"
#include "tests/support/test_plan.h"

namespace gangway {

// One step of w: f32[2], loss = mean((x - w)^2) over x: f32[8, 2] cut over all devices; w -= lr *
// dloss/dw.
inline std::shared_ptr<const Plan> training_step(uint32_t hosts, uint32_t devices) {
  TestPlan t("step", hosts, devices);
  Builder b("step", t.mesh());
  Value w = b.parameter("w", f32({2}));
  Value x = b.parameter("x", f32({8, 2}), {{"data", shard(0)}});
  Value lr = b.parameter("lr", f32());
  Value error = broadcast_to(w, {8, 2}) - x;
  Value loss = sum(log(exp(error * error)), {}) * 0.125;
  Value gradient = sum(error, {0}) * 0.25;
  b.result("loss", loss);
  b.result("w", w - gradient * broadcast_to(lr, {2}));
  const uint32_t state = t.state("w", f32({2}), 1.0);
  const uint32_t in = t.input("x", f32({8, 2}), {shard(0)});
  const uint32_t rate = t.input("lr", f32());
  const uint32_t out = t.output("loss", f32());
  const uint32_t function = t.function(b.build(), {.in_place = {{0, 1}}, .finite_result = 0});
  const uint32_t call = t.call("step", function, {state, in, rate}, {out, state});
  t.gate();
  t.commit(call);
  return t.share();
}

// A run that reads array 100 and writes array 1000 + run.
inline RunFrame step_request(PlanId plan, uint64_t run, float lr = 1.0f) {
  std::vector<std::byte> rate(sizeof lr);
  std::memcpy(rate.data(), &lr, sizeof lr);
  return {.plan = plan,
          .run = RunId(run),
          .arguments = {{0, ArrayId(100), {}}, {1, {}, rate}},
          .outputs = {ArrayId(1000 + run)}};
}

}  // namespace gangway
