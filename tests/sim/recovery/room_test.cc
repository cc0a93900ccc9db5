// A program that lost a host, and finds devices whose memory another program holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// A program whose state lies on each device, and takes twice its size while it is updated.
Program adding(int64_t devices, int64_t elements) {
  ProgramBuilder b("adding", Mesh{{{"data", devices}}});
  const Value w = b.state("w", zeros(f32({elements})));
  const Value next = w + 1.0;
  b.update(w, next);
  b.output("first", sum(next, {0}));
  return b.build();
}

// The number of plans of any program that were installed so far. Each one has a new name.
uint64_t installed(Controller& controller, const std::string& name) {
  for (const ProgramCounts& program : controller.program_counts()) {
    if (program.name != name) continue;
    const PlanId plan = controller.shown_graphs().plans(program.id).at(0).plan;
    return controller.tables().plans.at(plan, program.id).on_hosts.value;
  }
  return 0;
}

TEST(RecoveryRoomTest, AProgramThatWaitsForRoomSaysSoOnceWhateverOthersRun) {
  auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  const TempDir root;
  reactor->run([&] {
    SimCluster cluster(
        *reactor, {.hosts = 3, .memory_bytes = 4 << 20, .checkpoint_folder = root.path().string()});
    std::vector<std::string> told;
    const auto times_reported = [&](const std::string& text) {
      return std::ranges::count_if(
          told, [&](const std::string& line) { return line.find(text) != std::string::npos; });
    };
    const Client first = cluster.connect(
        "first", {.on_warning = [&](const std::string& line) { told.push_back(line); }});
    const Client second = cluster.connect("second");
    {
      constexpr int64_t kElements = 1 << 18;
      const Slice slice = first.allocate({.devices = 4});
      const Executable step = slice.compile(adding(4, kElements));
      slice.keep_checkpoints({.every = 4});
      for (int i = 0; i < 6; ++i) step.run().wait();
      std::optional<Slice> other = second.allocate({.devices = 2});
      std::optional<Executable> filling = other->compile(adding(2, 5 * kElements / 4));
      Controller& core = cluster.controller.controller();
      EXPECT_GT(installed(core, "first"), 0u);
      cluster.kill(1);
      for (int i = 0; i < 300; ++i) filling->run().wait();
      const uint64_t before = installed(core, "first");
      for (int i = 0; i < 300; ++i) filling->run().wait();
      pass(*reactor, 20 * kSecond);
      EXPECT_EQ(installed(core, "first"), before) << "it looks whether it would fit, and waits";
      EXPECT_EQ(times_reported("waits for room"), 1);
      EXPECT_EQ(times_reported("goes on on"), 0);
      filling.reset();
      other.reset();
      pass(*reactor, 20 * kSecond);
      EXPECT_EQ(times_reported("goes on on host-0, host-2"), 1);
      EXPECT_EQ(step.run()["first"].item<float>(), 7.0f * kElements);
    }
    first.close();
    second.close();
    pass(*reactor, kSecond);
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

}  // namespace
}  // namespace gangway
