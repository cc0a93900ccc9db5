// Programs whose meshes shrink while hosts die one after another, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/recovery/recovery_case.h"
#include "tests/sim/recovery/trainer.h"
#include "tests/sim/sim_time.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// The second host dies while several executables are installed on the devices that the first death
// left.
TEST(RecoveryElasticTest, SeveralExecutablesShrinkTogetherWhoeverDiesMeanwhile) {
  sim::RecoveryCase of{.hosts = 4,
                       .deaths = 3,
                       .within_ms = 6,
                       .come_back = false,
                       .elastic = {"data"},
                       .in_double = true,
                       .executables = 3};
  const std::vector<double> alone = sim::undisturbed_losses(of);
  int shrunk = 0;
  for (uint64_t seed = tests::test_seed(), last = seed + 60; seed < last; ++seed) {
    of.seed = seed;
    const sim::Recovered result = sim::recover(of);
    EXPECT_EQ(result.failed, "") << "seed " << seed;
    EXPECT_EQ(result.wrong, "") << "seed " << seed;
    ASSERT_EQ(result.losses.size(), alone.size()) << "seed " << seed;
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(result.losses[i], alone[i], 1e-9) << "seed " << seed;
    for (const std::string& line : result.told)
      shrunk += line.find("with data = 2") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(shrunk, 5);
}

// The first death shrinks slice "wide"; the other hosts die before its program is installed on the
// remaining devices.
TEST(RecoveryElasticTest, ASliceThatHasShrunkStaysSoWhenMoreHostsDie) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  const TempDir root;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 3, .checkpoint_folder = root.path().string()});
    std::vector<std::string> told;
    const Client client = cluster.connect(
        "client", {.on_warning = [&](const std::string& line) { told.push_back(line); }});
    {
      const Slice wide = client.allocate({.devices = 4, .exclusive = true});
      const Slice narrow = client.allocate({.devices = 2, .exclusive = true});
      const Mesh four{{{"data", 4}}}, two{{{"data", 2}}};
      Builder f("add", four);
      const Value w = f.parameter("w", f64({8}), {{"data", shard(0)}});
      f.result("next", w + 1.0);
      Builder g("twice", two);
      const Value in = g.parameter("in", f64({8}), {{"data", shard(0)}});
      g.result("out", in * 2.0);
      ProgramBuilder b("both", four);
      const uint32_t other = b.slice("narrow", two);
      const ProgramValue state = b.state_on(0, "w", zeros(f64({8})), {{"data", shard(0)}});
      b.call(0, "add", std::make_shared<const Function>(f.build()), {state},
             {{0, state.edge.node}});
      const ProgramValue given = b.input_on(other, "in", f64({8}), {{"data", shard(0)}});
      b.output_of("out",
                  b.call(other, "twice", std::make_shared<const Function>(g.build()), {given})[0]);
      const Executable step = wide.compile(b.build(), {narrow});
      wide.keep_checkpoints({.every = 4, .elastic = {"data"}});
      int done = 0;
      const auto run = [&] {
        ++done;
        const std::vector<double> values(8, done);
        const HostTensor out =
            step.run({{"in", HostTensor::of<double>({8}, values)}})["out"].to_host();
        for (const double value : out.as<double>()) EXPECT_EQ(value, 2.0 * done);
        const HostTensor added = wide.read_state("w");
        for (const double value : added.as<double>()) EXPECT_EQ(value, done);
      };
      for (int i = 0; i < 6; ++i) run();
      for (int host = 0; host < 3; ++host) cluster.kill(host);
      cluster.start_again(0);
      pass(*reactor, 1000 * kMillisecond);
      EXPECT_THAT(told, Contains(HasSubstr("the program waits for ")));
      cluster.start_again(1);
      for (int i = 0; i < 6; ++i) run();
      EXPECT_THAT(told,
                  Contains(HasSubstr("the program goes on on host-0, host-1, with data = 2")));
    }
    client.close();
    pass(*reactor, 1000 * kMillisecond);
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

}  // namespace
}  // namespace gangway
