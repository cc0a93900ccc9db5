// The virtual time that parallel dispatch saves in a chain of S calls, each on the next host.
//
//   parallel     w + L + S T      hosts do their work for all calls at once, ahead of the data
//   sequential   S (w + L + T)    each call waits for messages and for its host's work
//
// w: the host-side work of one call (ProcessRates::call_ns). T: its kernel. L: from the controller
// to a host and back, with both processes' work on the frames: the time that a chain of one call
// takes in addition to w and T, however it is dispatched. Between two calls only dispatch takes
// time: neither the devices' links nor the client's link to the controller have a latency or a
// limit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gangway.h"
#include "sim/sim_cluster.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr int64_t kUs = 1000;
constexpr uint32_t kStagesMax = 128;

struct Mix {
  int64_t host_us = 0;    // w
  int64_t delay_us = 0;   // Half of L, without the processes' part.
  int64_t kernel_us = 0;  // T
};

Program chain(uint32_t stages, int64_t kernel_us) {
  ProgramBuilder b("chain");
  Builder f("stage");
  f.result("y", timed(f.parameter("x", f32()), kernel_us));
  const auto stage = std::make_shared<const Function>(f.build());
  ProgramValue value = b.input_on(0, "x", f32());
  for (uint32_t s = 0; s < stages; ++s) {
    if (s > 0) value = b.transfer(value, b.slice(cat("stage", s), {}));
    value = b.call(s, cat("call", s), stage, {value})[0];
  }
  b.output_of("y", value);
  return b.build();
}

SimClusterOptions cluster_of(const Mix& mix) {
  const SimLinkRate free{.latency_ns = 0, .bytes_per_s = 1e18};
  return {.hosts = kStagesMax,
          .devices_per_host = 1,
          .timed_only = true,
          .links = {.host = free, .island = free, .between = free},
          .near = {.delay = std::chrono::microseconds(mix.delay_us)},
          .time = ProcessTime::kModelled,
          .executor_rates = {.call_ns = mix.host_us * kUs}};
}

class Chains {
 public:
  Chains(Reactor& reactor, const Mix& mix)
      : reactor_(reactor),
        mix_(mix),
        cluster_(reactor, cluster_of(mix)),
        client_(cluster_.connect("client",
                                 {.on_warning = [this](const std::string&) { ++warnings; }})) {
    cluster_.network.set_speed(SimCluster::kController, "client", {});
    while (slices_.size() < kStagesMax) slices_.push_back(client_.allocate({.devices = 1}));
  }
  ~Chains() {
    slices_.clear();
    client_.close();
  }
  Chains(const Chains&) = delete;

  int64_t run_ns(uint32_t stages, Dispatch dispatch) {
    const Executable program =
        slices_[0].compile(chain(stages, mix_.kernel_us),
                           {slices_.begin() + 1, slices_.begin() + stages}, {.dispatch = dispatch});
    const gangway::Run first = program.run({{"x", 1.0f}});  // Its result is freed afterwards.
    first.wait();
    const int64_t begin_ns = reactor_.clock().now_ns();
    program.run({{"x", 1.0f}}).wait();
    return reactor_.clock().now_ns() - begin_ns;
  }

  int warnings = 0;

 private:
  Reactor& reactor_;
  const Mix mix_;
  SimCluster cluster_;
  Client client_;
  std::vector<Slice> slices_;
};

void expect_near(double measured, double expected, const std::string& what) {
  EXPECT_NEAR(measured / expected, 1, 0.05) << what << ": " << measured << ", not " << expected;
}

void expect_overlap(const Mix& mix) {
  const auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  reactor->run([&] {
    Chains chains(*reactor, mix);
    const auto w = static_cast<double>(mix.host_us * kUs);
    const auto t = static_cast<double>(mix.kernel_us * kUs);
    double l = 0;
    int compiled = 0;
    for (uint32_t stages = 1; stages <= kStagesMax; stages *= 2, ++compiled) {
      const auto parallel = static_cast<double>(chains.run_ns(stages, Dispatch::kParallel));
      const auto sequential = static_cast<double>(chains.run_ns(stages, Dispatch::kSequential));
      if (stages == 1) {
        l = parallel - w - t;
        EXPECT_NEAR(l, 2.0 * static_cast<double>(mix.delay_us * kUs), 40.0 * kUs)
            << "beside the messages' way only frames take time";
      }
      const std::string at = cat(stages, " stages");
      expect_near(parallel, w + l + stages * t, at + ", parallel");
      expect_near(sequential, stages * (w + l + t), at + ", sequential");
      expect_near(sequential / parallel, stages * (w + l + t) / (w + l + stages * t), at);
    }
    EXPECT_EQ(chains.warnings, compiled) << "each sequential program says once that it is slow";
  });
}

TEST(OverlapTest, ParallelDispatchSavesWhatTheFormulaSaysWhereKernelsAreShort) {
  expect_overlap({.host_us = 100, .delay_us = 250, .kernel_us = 20});
}

TEST(OverlapTest, ParallelDispatchSavesWhatTheFormulaSaysWhereHostWorkIsLong) {
  expect_overlap({.host_us = 500, .delay_us = 100, .kernel_us = 50});
}

TEST(OverlapTest, ParallelDispatchSavesWhatTheFormulaSaysWhereKernelsTakeAsLongAsTheRest) {
  expect_overlap({.host_us = 100, .delay_us = 200, .kernel_us = 500});
}

TEST(OverlapTest, ParallelDispatchSavesLittleWhereKernelsAreLong) {
  expect_overlap({.host_us = 20, .delay_us = 50, .kernel_us = 2000});
}

}  // namespace
}  // namespace gangway
