// Measures each collective between processes of one machine, and OpenMPI's in the same run.
//
// Why: a partitioned step is products and collectives; on one machine the collectives should cost
// as much as their memory traffic. Each benchmark is BM_Collective/<kind>/<ranks>/<bytes>, where
// `bytes` are those of the whole tensor (a gather's result, otherwise an operand), in f32. Read
//   us             one collective, mean of a turn; with --table the median of five turns, which
//                  alternate with OpenMPI's, since a turn in which a core was lent to somebody else
//                  takes many times as long
//   openmpi_us     the same of OpenMPI, which runs right behind it with as many processes and as
//                  much data; missing where `mpirun` or the peer is (build with libopenmpi-dev)
//   times_openmpi  us / openmpi_us
//   times_memcpy   `us` over a memcpy of as many bytes by all ranks at once
// Goals on 2 ranks: times_openmpi at most 1 below 64 KiB and less than 1 from there on, and
// times_memcpy at most 2 for the largest. 4 and 8 ranks have none: on fewer cores they wait for one
// another's turn.
//
// Gangway's collectives report to every member, the root of a broadcast too, that all others have
// begun and whether one is poisoned. The root of OpenMPI's broadcast only sends.
//
//   collectives_bench --table [--benchmark_filter=...]    prints rows for docs/benchmarks.md
#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "executor/links/shared_link.h"
#include "runtime/base/cat.h"
#include "runtime/os/thread.h"
#include "tests/conformance/group_harness.h"
#include "tests/support/places.h"

namespace gangway {
namespace {

struct Case {
  CollectiveKind kind;
  uint32_t ranks;
  int64_t bytes;

  int64_t elements() const { return bytes / 4; }
  // Enough rounds for a mean, and at most seconds.
  int64_t rounds() const { return std::clamp<int64_t>((int64_t{256} << 20) / bytes, 10, 5000); }
};

constexpr int kTableTurns = 5;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "collectives_bench: %s\n", why.c_str());
  _exit(1);
}

// The ranks above 0, a process each. None outlives this process, which ends when one of them fails;
// otherwise rank 0 would wait for the failed rank for ever.
class OtherRanks {
 public:
  void start(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child < 0) give_up(cat("fork: ", std::strerror(errno)));
    if (child > 0) return static_cast<void>(++count_);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  // Watches the ranks' processes. Call it after all have started.
  void watch() {
    watcher_ = Thread("ranks", [count = count_] {
      for (uint32_t ended = 0; ended < count; ++ended) {
        int status = 0;
        const pid_t child = wait(&status);
        if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
          give_up(cat("a rank ended with status ", status));
      }
    });
  }
  void join() { watcher_.join(); }

 private:
  uint32_t count_ = 0;
  Thread watcher_;
};

// One rank's tensors and its membership. Each member runs in a process of its own after the set-up.
class Member {
 public:
  Member(const Case& of, GroupHarness& group, uint32_t rank)
      : case_(of),
        collective_(group.member(rank)),
        bell_(
            *static_cast<SharedLink&>(group.link(rank)).bell(GroupHarness::device_of(0)).doorbell),
        policy_(SpinPolicy::for_threads(static_cast<int>(of.ranks))),
        in_(static_cast<size_t>(of.elements()), static_cast<float>(rank)),
        out_(static_cast<size_t>(of.elements())) {
    const bool gathers = of.kind == CollectiveKind::kAllGather;
    const Type in = f32({gathers ? of.elements() / of.ranks : of.elements()});
    tensor_ = {in_.data(), out_.data(), in.elements(), DType::kF32};
    call_.kind = of.kind;
    call_.tensors = {&tensor_, 1};
    if (gathers) call_.cut = gather_cut(in, 0, of.elements());
    if (of.kind == CollectiveKind::kReduceScatter) call_.cut = scatter_cut(in, 0, of.ranks);
    if (of.kind == CollectiveKind::kAllToAll)
      call_.cut = all_to_all_cut(in, 0, 0, of.ranks, of.elements());
  }

  void collect() {
    collective_.begin(call_, false);
    finish();
  }
  // All ranks begin the copy together.
  void copy() {
    collective_.begin_exchange(0, false);
    finish();
    std::memcpy(out_.data(), in_.data(), static_cast<size_t>(case_.bytes));
    benchmark::ClobberMemory();
  }

 private:
  void finish() {
    while (true) {
      const uint32_t ticket = bell_.ticket();
      if (collective_.advance() == Progress::kDone) return;
      bell_.wait(ticket, policy_);
    }
  }

  const Case case_;
  Collective& collective_;
  Doorbell& bell_;
  const SpinPolicy policy_;
  std::vector<float> in_, out_;
  CollectiveTensor tensor_;
  CollectiveCall call_;
};

GroupHarness make_group(const Case& of) {
  GroupHarness::Options options;
  for (uint32_t r = 0; r < of.ranks; ++r) options.host_of.push_back(r);
  options.bytes_max = of.bytes;
  options.kinds = CollectiveKinds::all();
  options.bell_of = [](HostLink& link, uint32_t, uint32_t device) {
    return static_cast<SharedLink&>(link).bell(device);
  };
  return {options, [](uint32_t devices) { return std::make_unique<SharedLink>(devices); }};
}

double now_us() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(since).count();
}

// The mean time of a collective by OpenMPI, or 0 if it is not installed.
double openmpi_us(const Case& of) {
  const std::string peer = tests::build_folder() + "/tests/conformance/openmpi_peer";
  if (!std::filesystem::exists(peer)) return 0;
  const std::string command = cat("mpirun --allow-run-as-root --oversubscribe -n ", of.ranks, " ",
                                  peer, " ", to_string(of.kind), " ", of.bytes, " ", of.rounds());
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  char text[64] = {};
  const bool has_line = std::fgets(text, sizeof(text), pipe) != nullptr;
  return pclose(pipe) == 0 && has_line ? std::strtod(text, nullptr) : 0;
}

// Times of one turn.
struct Times {
  double collect_us = 0, copy_us = 0, openmpi_us = 0;
};

Times take_turn(const Case& of) {
  GroupHarness group = make_group(of);
  OtherRanks others;
  const int64_t rounds = of.rounds(), copies = std::min<int64_t>(rounds, 50);
  const auto run = [&](uint32_t rank, auto begin, auto end) {
    Member member(of, group, rank);
    for (int64_t i = 0; i < rounds / 10 + 1; ++i) member.collect();  // Touches all memory.
    member.copy();
    begin();
    for (int64_t i = 0; i < rounds; ++i) member.collect();
    end();
    for (int64_t i = 0; i < copies; ++i) member.copy();
  };
  for (uint32_t rank = 1; rank < of.ranks; ++rank) others.start([&] { run(rank, [] {}, [] {}); });
  others.watch();
  Times times;
  double began = 0;
  run(
      0, [&] { began = now_us(); },
      [&] {
        const double at = now_us();
        times.collect_us = (at - began) / static_cast<double>(rounds);
        began = at;
      });
  times.copy_us = (now_us() - began) / static_cast<double>(copies);
  others.join();
  times.openmpi_us = openmpi_us(of);
  return times;
}

double median(const std::vector<Times>& all, double Times::* which) {
  std::vector<double> values;
  for (const Times& times : all) values.push_back(times.*which);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(benchmark::State& state, const Case& of, int turns) {
  std::vector<Times> all;
  for (auto _ : state) {
    for (int turn = 0; turn < turns; ++turn) all.push_back(take_turn(of));
    state.SetIterationTime(median(all, &Times::collect_us) * 1e-6);
  }
  const double collect_us = median(all, &Times::collect_us);
  state.SetLabel(std::string(to_string(of.kind)));
  state.counters["ranks"] = of.ranks;
  state.counters["bytes"] = static_cast<double>(of.bytes);
  state.counters["us"] = collect_us;
  state.counters["times_memcpy"] = collect_us / median(all, &Times::copy_us);
  if (const double peer = median(all, &Times::openmpi_us); peer > 0) {
    state.counters["openmpi_us"] = peer;
    state.counters["times_openmpi"] = collect_us / peer;
  }
}

std::string bytes_text(double bytes) {
  constexpr double kKiB = 1024, kMiB = kKiB * kKiB;
  if (bytes >= kMiB) return cat(static_cast<int64_t>(bytes / kMiB), " MiB");
  if (bytes >= kKiB) return cat(static_cast<int64_t>(bytes / kKiB), " KiB");
  return cat(static_cast<int64_t>(bytes), " B");
}

// A row of a Markdown table for each benchmark.
class TableReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::puts("| collective | bytes | ranks | us | OpenMPI's us | times_openmpi | times_memcpy |");
    std::puts("| --- | --- | --- | --- | --- | --- | --- |");
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      std::printf("| %s | %s | %.0f | %s | %s | %s | %s |\n", run.report_label.c_str(),
                  bytes_text(counter(run, "bytes")).c_str(), counter(run, "ranks"),
                  text(run, "us").c_str(), text(run, "openmpi_us").c_str(),
                  text(run, "times_openmpi").c_str(), text(run, "times_memcpy").c_str());
      std::fflush(stdout);
    }
  }

 private:
  static double counter(const Run& run, const char* name) {
    const auto at = run.counters.find(name);
    return at == run.counters.end() ? 0 : at->second.value;
  }
  static std::string text(const Run& run, const char* name) {
    if (!run.counters.contains(name)) return "";
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.2f", counter(run, name));
    return digits;
  }
};

void add_all(int turns) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
        CollectiveKind::kAllToAll, CollectiveKind::kBroadcast}) {
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      for (int64_t bytes = 64; bytes <= int64_t{64} << 20; bytes *= 32) {
        const Case of{kind, ranks, bytes};
        benchmark::RegisterBenchmark(
            cat("BM_Collective/", to_string(kind), "/", ranks, "/", bytes).c_str(),
            [of, turns](benchmark::State& state) { measure(state, of, turns); })
            ->Iterations(1)
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace
}  // namespace gangway

int main(int argc, char** argv) {
  const bool table = argc > 1 && std::string_view(argv[1]) == "--table";
  if (table) std::rotate(argv + 1, argv + 2, argv + argc--);
  benchmark::Initialize(&argc, argv);
  gangway::add_all(table ? gangway::kTableTurns : 1);
  gangway::TableReporter reporter;
  table ? benchmark::RunSpecifiedBenchmarks(&reporter) : benchmark::RunSpecifiedBenchmarks();
  return 0;
}
