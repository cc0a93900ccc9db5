// Measures what a node of a program costs beside its kernel: chains of 128 calls of a trivial
// function, on one device and alternating between devices of two executor processes.
//
// Why it matters: the system's part of a step must vanish beside the kernels, and a pipeline's
// hand-off must cost what shared memory costs, not a socket. How to read it: `us_per_node` is the
// time from run() to the result over all nodes. Ahead enqueues eight runs before it waits, so that
// eight runs share the call's own way (call_latency_bench). `floor_us` is a bare hand-off between
// two processes over the same doorbells with the same wait policy, measured between the runs;
// `times_floor` divides the two medians. `us_per_hop` is the cost of one more node, from a chain
// four times as long: the run's own messages drop out of it, which take the devices' cores if there
// are only two. Budget: 1 us a node on one device; between processes 3 times the floor ahead, and
// 1.5 times for one more hop.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "bench/chain.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/shared_segment.h"

namespace gangway {
namespace {

using bench::chain, bench::median, bench::now_us, bench::us_per_run;

constexpr uint32_t kNodes = 128;
constexpr uint32_t kNodesLong = 4 * kNodes;
constexpr int kRunsAhead = 8;

void one_device(benchmark::State& state, int runs) {
  const Client client = connect("local:1x1", {.memory_bytes = 64 << 20});
  const Executable executable = client.allocate({.devices = 1}).compile(chain(1, kNodes));
  std::vector<double> rounds;
  us_per_run(executable, runs, kNodes);
  for (auto _ : state) rounds.push_back(us_per_run(executable, runs, kNodes));
  state.counters["us_per_node"] = median(rounds) / kNodes;
}
void BM_Chained128Waited(benchmark::State& state) { one_device(state, 1); }
void BM_Chained128Ahead(benchmark::State& state) { one_device(state, kRunsAhead); }
BENCHMARK(BM_Chained128Waited)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Chained128Ahead)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Two processes that pass a number to and fro.
class Floor {
 public:
  Floor() : segment_(SharedSegment::create(sizeof(Ball))), ball_(*new(segment_.data()) Ball) {
    child_ = fork();
    if (child_ != 0) return;
    for (uint64_t next = 1;; next += 2) {
      if (wait_for(1, next) >= kStop) _exit(0);
      pass(0, next + 1);
    }
  }
  ~Floor() {
    pass(1, kStop);
    waitpid(child_, nullptr, 0);
  }
  Floor(const Floor&) = delete;

  double us_per_hand_off(uint32_t hand_offs) {
    const double begin = now_us();
    for (uint32_t i = 0; i < hand_offs; i += 2) {
      pass(1, turn_ + 1);
      turn_ = wait_for(0, turn_ + 2);
    }
    return (now_us() - begin) / hand_offs;
  }

 private:
  static constexpr uint64_t kStop = uint64_t{1} << 62;
  struct Ball {
    alignas(64) Doorbell bells[2];
    alignas(64) std::atomic<uint64_t> turn{0};
  };
  // The policy of one device thread in each of two executors.
  const SpinPolicy policy_ = SpinPolicy::for_threads(2);

  uint64_t wait_for(int side, uint64_t value) {
    while (true) {
      const uint32_t ticket = ball_.bells[side].ticket();
      const uint64_t turn = ball_.turn.load(std::memory_order_acquire);
      if (turn >= value) return turn;
      ball_.bells[side].wait(ticket, policy_);
    }
  }
  void pass(int to, uint64_t value) {
    ball_.turn.store(value, std::memory_order_release);
    ball_.bells[to].ring();
  }

  SharedSegment segment_;
  Ball& ball_;
  pid_t child_ = -1;
  uint64_t turn_ = 0;
};

void alternating(benchmark::State& state, int runs) {
  Floor floor;
  const Client client = connect("local:2x1", {.memory_bytes = 64 << 20});
  const Slice first = client.allocate({.devices = 1}), second = client.allocate({.devices = 1});
  const Executable executable = first.compile(chain(2, kNodes), {second});
  const Executable longer = first.compile(chain(2, kNodesLong), {second});
  std::set<std::string> hosts;
  for (const auto& device : executable.memory().devices) hosts.insert(device.host);
  GW_REQUIRE(hosts.size() == 2, "chain: expected its slices on two hosts, got ", hosts.size());
  std::vector<double> floors, chains, longs;
  us_per_run(executable, runs, kNodes);
  us_per_run(longer, runs, kNodesLong);
  floor.us_per_hand_off(kNodes);
  for (auto _ : state) {
    floors.push_back(floor.us_per_hand_off(kNodes * static_cast<uint32_t>(runs)));
    chains.push_back(us_per_run(executable, runs, kNodes));
    longs.push_back(us_per_run(longer, runs, kNodesLong));
  }
  const double us_per_hop = (median(longs) - median(chains)) / (kNodesLong - kNodes);
  state.counters["us_per_node"] = median(chains) / kNodes;
  state.counters["us_per_hop"] = us_per_hop;
  state.counters["floor_us"] = median(floors);
  state.counters["times_floor"] = median(chains) / kNodes / median(floors);
  state.counters["hop_times_floor"] = us_per_hop / median(floors);
}
void BM_Alternating128Waited(benchmark::State& state) { alternating(state, 1); }
void BM_Alternating128Ahead(benchmark::State& state) { alternating(state, kRunsAhead); }
BENCHMARK(BM_Alternating128Waited)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Alternating128Ahead)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gangway
