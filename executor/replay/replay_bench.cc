// Cost of a node of an installed plan: a chain of 128 trivial calls on one device, from start() to
// done.
//
// Why: the host's part of a step must be negligible compared with the kernels. Read `us_per_node`:
// host-side enqueue and the device's replay together, kernel of one element included. Budget: 1 us.
#include <benchmark/benchmark.h>

#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

constexpr uint32_t kNodes = 128;

std::shared_ptr<const Plan> chain() {
  TestPlan t("chain", 1, 1);
  Builder b("next", t.mesh());
  Value x = b.parameter("x", f32());
  b.result("y", x + 1.0);
  const uint32_t function = t.function(b.build());
  uint32_t now = t.input("x", f32());
  for (uint32_t n = 0; n < kNodes; ++n) {
    const uint32_t next =
        n + 1 == kNodes ? t.output("y", f32()) : t.value("", PlanStorage::kTemporary, f32());
    t.call("next", function, {now}, {next});
    now = next;
  }
  return t.share();
}

void BM_Chained128(benchmark::State& state) {
  const bool traced = state.range(0) != 0;
  auto reactor = Reactor::make_real();
  Tracer own(reactor->clock(), "bench");
  TraceAttachment attached(traced ? &own.add_row("reactor") : nullptr);
  TestHosts t(*reactor, 1, 1, DeviceKind::kCpu, traced ? &own : nullptr, int64_t{64} << 20, {},
              OrderChecked::kNo);
  t.install(PlanId(1), chain());
  RunFrame request{.plan = PlanId(1),
                   .arguments = {{0, {}, std::vector<std::byte>(4)}},
                   .outputs = {ArrayId(1)}};
  uint64_t run = 0;
  for (auto _ : state) {
    request.run = RunId(++run);
    t.start(request);
    benchmark::DoNotOptimize(t.wait(request.run));
  }
  state.counters["us_per_node"] = benchmark::Counter(
      kNodes * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK(BM_Chained128)->ArgName("traced")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace gangway
