#include "ir/plan/rates.h"

#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"

namespace gangway {
namespace {

constexpr DeviceRates kRates{.flops_per_s = 1e9,
                             .memory_bytes_per_s = 1e8,
                             .link_bytes_per_s = 1e7,
                             .launch_ns = 100,
                             .collective_latency_ns = 1000};

TEST(RatesTest, AStepTakesItsLaunchAndTheLongerOfItsWorkAndItsBytes) {
  EXPECT_EQ(kRates.step_ns(5000, 0), 100 + 5000);
  EXPECT_EQ(kRates.step_ns(5000, 700), 100 + 7000);
  EXPECT_EQ(kRates.step_ns(1e300, 0), 100 + 1'000'000'000'000'000'000);
}

TEST(RatesTest, ACollectiveMovesTwiceTheBucketLessOnePart) {
  EXPECT_EQ(kRates.collective_ns(1000, 4), 1000 + 150'000);
  EXPECT_EQ(kRates.collective_ns(1000, 1), 1000);
}

TEST(RatesTest, ANodeCostsWhatItsRowSaysAndATimedOneItsTime) {
  const Mesh mesh{{{"data", 2}, {"expert", 3}}};
  Builder b("f", mesh);
  Value x = b.parameter("x", f32({10, 20}));
  b.result("y", timed(dot(x, b.parameter("w", f32({20, 30}))), 7));
  Function f = b.build();
  ASSERT_EQ(f.nodes.size(), 2u);
  EXPECT_EQ(modelled_ns(kRates, f, 0), kRates.step_ns(2 * 10 * 20 * 30, 4 * (200 + 600 + 300)));
  EXPECT_EQ(modelled_ns(kRates, f, 1), 7000);
  f.nodes[1].op = Op::all_reduce;
  f.nodes[1].attrs = {};
  f.nodes[1].attrs.set("axes", std::string("data,expert"));
  EXPECT_EQ(modelled_ns(kRates, f, 1), kRates.collective_ns(1200, 6));
}

TEST(RatesTest, AnExchangeCostsWhatItsMembersSend) {
  const Mesh mesh{{{"data", 4}}};
  Builder b("f", mesh);
  Value x = b.parameter("x", f32({10, 20}));
  b.result("y", b.emit1(Op::all_gather, {x},
                        {{"axes", std::string("data")},
                         {"dim", int64_t{0}},
                         {"parts", int64_t{4}},
                         {"size", int64_t{40}}},
                        {}));
  const Function f = b.build();
  EXPECT_EQ(modelled_ns(kRates, f, 0), kRates.exchange_ns(3 * 4 * 200));
  EXPECT_EQ(kRates.exchange_ns(0), kRates.collective_ns(1000, 1));
}

TEST(RatesTest, AKindThatIsNotKnownCountsAsCpu) {
  EXPECT_EQ(rates_of("abacus").flops_per_s, rates_of("cpu").flops_per_s);
  EXPECT_LT(rates_of("cpu").flops_per_s, rates_of("sim").flops_per_s);
  EXPECT_LT(rates_of("cpu").flops_per_s, rates_of("cuda").flops_per_s);
}

}  // namespace
}  // namespace gangway
