// Collectives inside the bodies of scans and calls, on emulated cards: each device gets the results
// of the reference interpreter, whatever other devices do and wherever sections end, and no two
// operations race.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/body_functions.h"
#include "tests/collectives/local_call.h"
#include "tests/cuda/emulated_gpu.h"

namespace gangway {
namespace {

constexpr uint64_t kSeeds = 6;

// Hosts of cards of one machine.
struct CardHosts {
  CardHosts(const Cluster& cluster, uint32_t cards, uint64_t seed)
      : machine(emulated::make_machine(seed, cluster.hosts * cards)) {
    std::vector<std::vector<std::shared_ptr<cuda::Driver>>> gpus(cluster.hosts);
    for (uint32_t c = 0; c < cluster.hosts * cards; ++c)
      gpus[c / cards].push_back(emulated::driver_of(machine, c));
    hosts = std::make_shared<LocalHosts>(cluster, DeviceKind::kCuda, gpus);
  }
  ~CardHosts() {
    hosts = nullptr;
    EXPECT_EQ(machine->report_text(), "");
  }

  const std::shared_ptr<emulated::EmulatedMachine> machine;
  std::shared_ptr<LocalHosts> hosts;
};

struct Case {
  const char* name;
  uint32_t hosts, devices, ranks, cards;  // Cards of each host.
  bool nested;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr Case kCases[] = {
    {"TwoDevicesOfACard", 1, 2, 1, 1, false},
    {"TwoCards", 1, 2, 1, 2, false},
    {"TwoHosts", 2, 1, 1, 1, false},
    {"TwoRanksOnEachOfTwoCards", 1, 2, 2, 2, false},
    {"FourDevicesOfACardNested", 1, 4, 1, 1, true},
    {"FourCardsNested", 1, 4, 1, 4, true},
};

class CudaBodies : public ::testing::TestWithParam<Case> {
 protected:
  Cluster cluster() const {
    const Case& c = GetParam();
    const int64_t n = int64_t{c.hosts} * c.devices * c.ranks;
    return {c.name, c.hosts, c.devices, c.ranks, c.nested ? kSquare : Mesh{{{"data", n}}}};
  }
  std::shared_ptr<const Function> function() const {
    return GetParam().nested ? nested_on_four() : layers_on(cluster().mesh.devices());
  }
  static void for_each_seed(const std::function<void(uint64_t)>& body) {
    const uint64_t first = tests::test_seed();
    for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
      SCOPED_TRACE(cat("seed ", seed));
      body(seed);
    }
  }
};

// Runs 2 and 3 use the buffers of earlier runs, so graphs are captured and replayed.
TEST_P(CudaBodies, EachDeviceGetsWhatTheReferenceGives) {
  const auto f = function();
  for_each_seed([&](uint64_t seed) {
    CardHosts on(cluster(), GetParam().cards, seed);
    LocalCall call(on.hosts, PlanId(1), f);
    call.install();
    for (uint64_t run = 1; run <= 4; ++run) {
      const auto arguments = random_arguments(*f, seed + run);
      expect_reference(*f, arguments, call.run(arguments, run));
    }
  });
}

TEST_P(CudaBodies, SectionsMayEndAnywhereInsideALoop) {
  const auto f = function();
  for_each_seed([&](uint64_t seed) {
    CardHosts on(cluster(), GetParam().cards, seed);
    LocalCall call(on.hosts, PlanId(1), f, seed % 2 == 0 ? 1 : 25'000);
    EXPECT_GT(call.sections(), 4u);
    call.install();
    for (uint64_t run = 1; run <= 3; ++run) {
      const auto arguments = random_arguments(*f, seed + run);
      expect_reference(*f, arguments, call.run(arguments, run));
    }
  });
}

TEST_P(CudaBodies, TwoProgramsShareTheCards) {
  const auto f = function();
  for_each_seed([&](uint64_t seed) {
    CardHosts on(cluster(), GetParam().cards, seed);
    LocalCall one(on.hosts, PlanId(1), f, 1), other(on.hosts, PlanId(2), f);
    one.install();
    other.install();
    const auto arguments = random_arguments(*f, seed);
    const RunFrame runs[] = {one.request(arguments, 1), other.request(arguments, 2),
                             one.request(arguments, 3), other.request(arguments, 4)};
    for (const RunFrame& run : runs) on.hosts->hosts.start(run);
    for (size_t r = 0; r < 4; ++r)
      expect_reference(*f, arguments, (r % 2 == 0 ? one : other).results(runs[r]));
  });
}

TEST_P(CudaBodies, ALaunchThatFailsInsideALoopIsNamedAndTheNextRunIsClean) {
  if (GetParam().nested) GTEST_SKIP() << "it has no such op";
  const auto f = function();
  for_each_seed([&](uint64_t seed) {
    CardHosts on(cluster(), GetParam().cards, seed);
    LocalCall call(on.hosts, PlanId(1), f);
    call.install();
    const auto arguments = random_arguments(*f, seed);
    expect_reference(*f, arguments, call.run(arguments, 1));
    on.machine->inject({cuda::StatusKind::kLaunch, " neg", static_cast<uint32_t>(seed % 4)});
    try {
      call.run(arguments, 2);
      FAIL() << "nothing failed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("in layers."));
    }
    expect_reference(*f, arguments, call.run(arguments, 3));
  });
}

INSTANTIATE_TEST_SUITE_P(Emulated, CudaBodies, ::testing::ValuesIn(kCases),
                         [](const auto& i) { return i.param.name; });

// The second device's exp(x * w[1]) overflows.
TEST(CudaBodiesDiagnosis, AnOpWhoseResultIsNotFiniteIsNamedWithItsIteration) {
  const auto f = overflowing_on_two();
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CardHosts on(kClusters[0], 1, seed);
    TestHosts& hosts = on.hosts->hosts;
    TestPlan plan("local", 1, 2);
    plan.plan().functions.push_back({.function = f, .commit_begin = 2, .finite_result = 0});
    const uint32_t x = plan.input("x", f32({4}), {shard(0)});
    const uint32_t w = plan.input("w", f32({6, 2}), {shard(0)});
    plan.call("step", 0, {x, w}, {plan.output("loss", f32())});
    plan.gate();
    hosts.install(PlanId(1), plan.share());
    hosts.put<float>(ArrayId(1), PlanId(1), 0, {1, 1, 1, 1});
    hosts.put<float>(ArrayId(2), PlanId(1), 1, {1, 1, 1, 1, 1, 1, 1, 1, 1, 900, 1, 1});
    hosts.start({.plan = PlanId(1),
                 .run = RunId(1),
                 .arguments = {{0, ArrayId(1), {}}, {1, ArrayId(2), {}}},
                 .outputs = {ArrayId(3)}});
    const Done done = hosts.wait(RunId(1));
    ASSERT_TRUE(done.error);
    EXPECT_TRUE(done.is_origin);
    EXPECT_THAT(done.error->what(), ::testing::HasSubstr("exp of f32[2]: first result"));
    EXPECT_THAT(done.error->what(), ::testing::HasSubstr("bodies.gw:4 in layers.1"));
  }
}

// Odd seeds have both devices on two cards, even seeds on one.
TEST(CudaRowsThatMustFit, RowsThatMustFitAndDoNotFailTheRun) {
  const auto f = rows_that_must_fit();
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CardHosts on(kClusters[0], 1 + seed % 2, seed);
    LocalCall call(on.hosts, PlanId(1), f);
    call.install();
    expect_overflow_fails_its_run(call, *f);
  }
}

}  // namespace
}  // namespace gangway
