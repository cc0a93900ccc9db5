// Cost of a plan that continues in another process: a chain of 128 calls that alternates between
// devices of two executor processes, compared with the bare hand-off of the same doorbells.
//
// Why: a pipeline's hand-off must cost what shared memory costs, not a socket. Read `us_per_node`
// of BM_Alternating against `us_per_hand_off` of BM_Floor, measured in the same run with the same
// wait policy. Goal: at most 1.5 times.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

constexpr uint32_t kCalls = 128;
// One device thread in each of two processes.
SpinPolicy policy() {
  static const SpinPolicy policy = SpinPolicy::for_threads(2);
  return policy;
}

struct Ball {
  alignas(64) Doorbell bells[2];
  alignas(64) std::atomic<uint64_t> turn{0};
  void wait_for(int side, uint64_t value) {
    while (true) {
      const uint32_t ticket = bells[side].ticket();
      if (turn.load(std::memory_order_acquire) >= value) return;
      bells[side].wait(ticket, policy());
    }
  }
  void pass(int to, uint64_t value) {
    turn.store(value, std::memory_order_release);
    bells[to].ring();
  }
};

constexpr uint64_t kStop = uint64_t{1} << 62;

void BM_Floor(benchmark::State& state) {
  SharedSegment segment = SharedSegment::create(sizeof(Ball));
  auto& ball = *reinterpret_cast<Ball*>(segment.data());
  const pid_t child = fork();
  if (child == 0) {
    for (uint64_t next = 1;; next += 2) {
      ball.wait_for(1, next);
      if (ball.turn.load() >= kStop) _exit(0);
      ball.pass(0, next + 1);
    }
  }
  uint64_t turn = 0;
  for (auto _ : state) {
    for (uint32_t i = 0; i < kCalls / 2; ++i) {
      ball.pass(1, turn + 1);
      ball.wait_for(0, turn + 2);
      turn += 2;
    }
  }
  ball.pass(1, kStop);
  waitpid(child, nullptr, 0);
  state.counters["us_per_hand_off"] = benchmark::Counter(
      kCalls * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Floor)->UseRealTime();

// The pipes over which the two processes exchange offers, run numbers and stop.
struct Wire {
  int in, out;
  template <class T>
  void put(const T& value) const {
    if (write(out, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(3);
  }
  template <class T>
  T get() const {
    T value{};
    if (read(in, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(4);
    return value;
  }
};

// One executor process of the chain.
struct Side {
  Side(uint32_t self, Wire wire)
      : reactor(Reactor::make_real()),
        host(*reactor,
             {.name = self == 0 ? "a" : "b", .devices = 1, .memory_bytes = 1 << 24, .threads = 1},
             log) {
    const std::shared_ptr<const Plan> plan = TestPlan::alternating_chain(2, 1, kCalls);
    positions = Positions(*plan).total();
    const Installed installed = host.install(PlanId(1), plan, self, StateScope{1}).take();
    std::vector<LinkOffer> offers = installed.offers;
    wire.put(offers[0].bytes.size());
    for (const std::byte byte : offers[0].bytes) wire.put(byte);
    LinkOffer& peer = offers.emplace_back();
    peer.host = 1 - self;
    peer.bytes.resize(wire.get<size_t>());
    for (std::byte& byte : peer.bytes) byte = wire.get<std::byte>();
    host.link(PlanId(1), offers);
    host.commit_install(PlanId(1)).await();
    wire.put('r');
    wire.get<char>();
  }
  void start(uint64_t run) {
    host.prepare({run - 1,
                  {.plan = PlanId(1),
                   .run = RunId(run),
                   .arguments = {{0, {}, std::vector<std::byte>(4)}},
                   .outputs = {ArrayId(1)}}});
    host.grant({{{.run = RunId(run),
                  .slice = kEverySlice,
                  .count = positions,
                  .ticket = Ticket(1 + (run - 1) * positions)}}});
  }
  void wait(uint64_t run) {
    reactor->run_until([&] { return log.done.contains(RunId(run)); });
    log.done.clear();
  }
  std::unique_ptr<Reactor> reactor;
  EventLog log;
  Host host;
  uint32_t positions = 0;
};

void BM_Alternating(benchmark::State& state) {
  std::array<int, 2> there{}, back{};
  if (pipe(there.data()) != 0 || pipe(back.data()) != 0) return state.SkipWithError("pipe");
  const pid_t child = fork();
  if (child == 0) {
    const Wire wire{there[0], back[1]};
    Side side(1, wire);
    for (uint64_t run = wire.get<uint64_t>(); run != 0; run = wire.get<uint64_t>()) {
      side.start(run);
      side.wait(run);
    }
    wire.put('d');
    _exit(0);
  }
  const Wire wire{back[0], there[1]};
  Side side(0, wire);
  uint64_t run = 0;
  for (auto _ : state) {
    wire.put(++run);
    side.start(run);
    side.wait(run);
  }
  wire.put(uint64_t{0});
  wire.get<char>();
  waitpid(child, nullptr, 0);
  for (int end : {there[0], there[1], back[0], back[1]}) close(end);
  state.counters["us_per_node"] = benchmark::Counter(
      kCalls * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Alternating)->UseRealTime();

}  // namespace
}  // namespace gangway
