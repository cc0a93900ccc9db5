// What it measures: handing 64 bytes to another thread, or another process, through a shared ring,
// and getting them back. Why: it is the floor under every step of control that crosses a thread or
// a process. How to read it: one_way_ns is half the round trip. With two free cores
// (spin_then_park) 100-300 ns; parked, each hop pays for waking a thread: 5-45 us. Budget: 300 ns
// one way while spinning.
#include "runtime/os/shared_ring.h"

#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "runtime/os/shared_segment.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

constexpr size_t kCapacity = 1 << 16;
constexpr size_t kBytes = 64;

struct Pair {
  SharedSegment there = SharedSegment::create(ring_bytes(kCapacity));
  SharedSegment back = SharedSegment::create(ring_bytes(kCapacity));
};

uint64_t receive(RingReader& reader, SpinPolicy policy) {
  RingRecord record;
  while (true) {
    const uint32_t ticket = reader.filled().ticket();
    if (reader.front(record) == RingStatus::kOk) break;
    reader.filled().wait(ticket, policy);
  }
  uint64_t number = 0;
  std::memcpy(&number, record.data(), sizeof number);
  reader.pop();
  return number;
}

void send(RingWriter& writer, uint64_t number) {
  std::byte payload[kBytes] = {};
  std::memcpy(payload, &number, sizeof number);
  while (writer.try_push(payload, kBytes) != RingStatus::kOk) {
  }
}

// Answers until it is sent zero.
void serve(Pair& pair, SpinPolicy policy) {
  RingReader reader(pair.there.data(), kCapacity);
  RingWriter writer(pair.back.data(), kCapacity);
  while (const uint64_t number = receive(reader, policy)) send(writer, number);
}

void call(benchmark::State& state, Pair& pair, SpinPolicy policy) {
  RingWriter writer(pair.there.data(), kCapacity);
  RingReader reader(pair.back.data(), kCapacity);
  uint64_t number = 0;
  for (auto _ : state) {
    send(writer, ++number);
    if (receive(reader, policy) != number) state.SkipWithError("wrong answer");
  }
  send(writer, 0);
  state.SetLabel(policy.name);
  state.counters["one_way_s"] = benchmark::Counter(
      2.0 * static_cast<double>(number), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

SpinPolicy policy_of(const benchmark::State& state) {
  return state.range(0) != 0 ? SpinPolicy::for_threads(2) : SpinPolicy::park();
}

void BM_HandOffBetweenThreads(benchmark::State& state) {
  Pair pair;
  const SpinPolicy policy = policy_of(state);
  Thread other("ring", [&] { serve(pair, policy); });
  call(state, pair, policy);
}
BENCHMARK(BM_HandOffBetweenThreads)->Arg(1)->Arg(0)->UseRealTime();

void BM_HandOffBetweenProcesses(benchmark::State& state) {
  Pair pair;
  const SpinPolicy policy = policy_of(state);
  const pid_t child = fork();
  if (child == 0) {
    serve(pair, policy);
    _exit(0);
  }
  call(state, pair, policy);
  waitpid(child, nullptr, 0);
}
BENCHMARK(BM_HandOffBetweenProcesses)->Arg(1)->Arg(0)->UseRealTime();

void BM_PushAndPopInOneThread(benchmark::State& state) {
  Pair pair;
  RingWriter writer(pair.there.data(), kCapacity);
  RingReader reader(pair.there.data(), kCapacity);
  for (auto _ : state) {
    send(writer, 1);
    benchmark::DoNotOptimize(receive(reader, SpinPolicy::park()));
  }
}
BENCHMARK(BM_PushAndPopInOneThread);

}  // namespace
}  // namespace gangway
