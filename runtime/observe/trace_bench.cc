// Measures the cost of one span. Why: spans are left on, in the hot path of every node. How to read
// it: ns per span, two clock readings included. Budget: 100 ns; without a tracer 2 ns.
#include "runtime/observe/trace.h"

#include <benchmark/benchmark.h>

#include "runtime/fibers/reactor.h"

namespace gangway {
namespace {

void BM_Span(benchmark::State& state) {
  auto reactor = Reactor::make_real();
  Tracer tracer(reactor->clock(), "bench");
  TraceAttachment attached = tracer.attach("bench");
  uint64_t node = 0;
  for (auto _ : state) TraceSpan span("node", 1, ++node);
}
BENCHMARK(BM_Span);

void BM_SpanWithoutATracer(benchmark::State& state) {
  uint64_t node = 0;
  for (auto _ : state) TraceSpan span("node", 1, ++node);
}
BENCHMARK(BM_SpanWithoutATracer);

}  // namespace
}  // namespace gangway
