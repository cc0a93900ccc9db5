// All-reduces on emulated cards are overlapped with work that does not need them; work that needs
// them waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"
#include "tests/cuda/emulated_hosts.h"
#include "tests/support/seed.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int64_t kN = 4;

Value all_reduce(Value x) {
  return x.builder().emit1(Op::all_reduce, {x}, {{"axes", "data"}, {"reduction", "sum"}}, Loc{});
}

// Two devices, on one card or on one each, that run y = local(x) on replicated matrices.
struct Reducing {
  Reducing(uint64_t seed, bool one_card) : hosts(seed, one_card ? 1 : 2, one_card ? 2 : 1) {}

  static std::shared_ptr<const Plan> plan(uint32_t hosts, uint32_t devices, Function local) {
    TestPlan t("reducing", hosts, devices);
    local.local = true;
    const auto end = static_cast<NodeId>(local.nodes.size());
    const uint32_t x = t.input("x", f32({kN, kN})), y = t.output("y", f32({kN, kN}));
    t.plan().functions.push_back(
        {.function = std::make_shared<const Function>(std::move(local)), .commit_begin = end});
    t.call("f", 0, {x}, {y});
    return t.share();
  }
  static void start(TestHosts& on, uint64_t run) {
    on.start({.plan = kPlan,
              .run = RunId(run),
              .arguments = {{0, ArrayId(100), {}}},
              .outputs = {ArrayId(1000 + run)}});
  }
  static std::vector<float> result(TestHosts& on, uint64_t run) {
    const Done done = on.wait(RunId(run));
    EXPECT_FALSE(done.error) << done.error->what();
    return on.get<float>(ArrayId(1000 + run), kN * kN);
  }

  void install(Function local, float x) {
    const auto count = static_cast<uint32_t>(hosts->hosts.size());
    hosts->install(kPlan, plan(count, 2 / count, std::move(local)));
    hosts->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(kN * kN, x));
  }
  TestHosts& all() { return *hosts.operator->(); }
  emulated::EmulatedMachine& machine() { return *hosts.machine; }

  EmulatedHosts hosts;
};

// %1 = all_reduce(x), %2 = x x, %3 = %1 %2
Function a_product_beside_an_all_reduce() {
  Builder b("f", TestPlan::mesh_of(2));
  Value x = b.parameter("x", f32({kN, kN}));
  Value sum = all_reduce(x);
  Value beside = dot(x, x);
  b.result("y", dot(sum, beside));
  return b.build();
}

class CudaOverlap : public ::testing::TestWithParam<std::tuple<uint64_t, bool>> {
 protected:
  static Reducing cards() { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

TEST_P(CudaOverlap, NodesThatDoNotNeedAnAllReduceRunWhileItIsUnderWay) {
  Reducing t = cards();
  t.install(a_product_beside_an_all_reduce(), 1.0f);
  t.machine().hold("all_reduce");
  Reducing::start(t.all(), 1);
  t.hosts.reactor().run_ready();  // Wakes the devices.
  EXPECT_TRUE(t.machine().wait_until_ran("f: %2 dot"));
  EXPECT_EQ(t.machine().ran("all_reduce"), 0u);
  t.machine().release();
  // Each element of the second product sums 2 * 4 four times.
  EXPECT_EQ(Reducing::result(t.all(), 1), std::vector<float>(kN * kN, 32.0f));
  EXPECT_EQ(t.hosts.reports(), "");
}

TEST_P(CudaOverlap, AJoinThatIsLostIsCaught) {
  Reducing t = cards();
  t.install(a_product_beside_an_all_reduce(), 1.0f);
  t.machine().lose_waits("join");
  Reducing::start(t.all(), 1);
  t.hosts->wait(RunId(1));
  EXPECT_THAT(t.machine().reports(),
              Contains(AllOf(Field(&emulated::Report::fault, emulated::Fault::kUnordered),
                             Field(&emulated::Report::first, "f: %1 all_reduce"),
                             Field(&emulated::Report::second, "f: %3 dot"))));
}

// From the second all-reduce on, other values may take the buffer that the first one reads.
TEST_P(CudaOverlap, ABufferIsReusedOnlyOnceAnAllReduceHasReadIt) {
  Builder b("f", TestPlan::mesh_of(2));
  Value x = b.parameter("x", f32({kN, kN}));
  Value read = dot(x, x);
  Value sum = all_reduce(read), twice = all_reduce(x);
  b.result("y", dot(dot(x, x), sum) - twice);  // The inner product takes the buffer of `read`.
  Reducing t = cards();
  t.install(b.build(), 1.0f);
  Reducing::start(t.all(), 1);
  EXPECT_EQ(Reducing::result(t.all(), 1), std::vector<float>(kN * kN, 126.0f));
  EXPECT_EQ(t.hosts.reports(), "");
}

Function random_function(Rng& rng) {
  Builder b("f", TestPlan::mesh_of(2));
  std::vector<Value> values{b.parameter("x", f32({kN, kN}))};
  for (int i = 0; i < 24; ++i) {
    Value a = values[rng.below(values.size())], c = values[rng.below(values.size())];
    switch (rng.below(4)) {
      case 0: values.push_back(reshape(reshape(a, {kN * kN}), {kN, kN})); break;
      case 1: values.push_back(all_reduce(a)); break;
      case 2: values.push_back(tanh(a)); break;
      default: values.push_back(a - c); break;
    }
  }
  b.result("y", tanh(values.back()) + tanh(values[values.size() / 2]));
  return b.build();
}

TEST_P(CudaOverlap, RandomFunctionsComputeWhatTheyDoOnCpus) {
  const uint64_t seed = gangway::tests::test_seed() + std::get<0>(GetParam());
  SCOPED_TRACE(cat("GW_TEST_SEED=", seed));
  Rng rng(seed);
  const Function function = random_function(rng);
  const std::vector<float> want = [&] {
    const auto reactor = Reactor::make_real();
    TestHosts cpus(*reactor, 1, 2);
    cpus.install(kPlan, Reducing::plan(1, 2, function));
    cpus.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(kN * kN, 0.3f));
    Reducing::start(cpus, 1);
    return Reducing::result(cpus, 1);
  }();
  Reducing t = cards();
  t.install(function, 0.3f);
  for (uint64_t run = 1; run <= 4; ++run) Reducing::start(t.all(), run);  // Later runs are graphs.
  for (uint64_t run = 1; run <= 4; ++run) {
    EXPECT_THAT(Reducing::result(t.all(), run), Pointwise(FloatNear(1e-4f), want));
  }
  EXPECT_EQ(t.hosts.reports(), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaOverlap,
                         ::testing::Combine(::testing::Range(uint64_t{1}, uint64_t{17}),
                                            ::testing::Bool()),
                         [](const auto& i) {
                           return cat("seed", std::get<0>(i.param),
                                      std::get<1>(i.param) ? "OneCard" : "CardEach");
                         });

}  // namespace
}  // namespace gangway
