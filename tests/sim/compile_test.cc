// Other clients while a large program is being compiled, on virtual time.
#include <gtest/gtest.h>

#include "gangway.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

Program chain(const Mesh& mesh, int nodes) {
  ProgramBuilder b("chain", mesh);
  Value x = b.input("x", f32({4, 4}));
  for (int i = 0; i < nodes; ++i) x = dot(x, x);
  b.output("y", sum(x));
  return b.build();
}

// A node takes a hundredth of a second on the controller.
const SimClusterOptions kSlowController = {.time = ProcessTime::kModelled,
                                           .controller_rates = {.compile_ns = kSecond / 100}};

TEST(SimCompile, HoldsUpNoHeartbeatsRunsOrCompilesOfOthers) {
  const auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, kSlowController, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable small = slice.compile(chain(slice.mesh({{"data", 2}}), 10));
    const Client other = cluster.connect("other");
    int64_t compiled_ns = 0;
    const int64_t began_ns = reactor->clock().now_ns();
    Fiber large = reactor->spawn("large", [&] {
      const Slice own = other.allocate({.devices = 2});
      own.compile(chain(own.mesh({{"data", 2}}), 3000));  // It takes 30 s.
      compiled_ns = reactor->clock().now_ns();
    });
    const Array x = slice.from_host(HostTensor::of<float>({4, 4}, std::vector<float>(16, 0.5f)));
    for (int i = 0; i < 100; ++i) small.run({{"x", x}}).wait();
    EXPECT_LT(reactor->clock().now_ns() - began_ns, kSecond);
    slice.compile(chain(slice.mesh({{"data", 2}}), 12));
    EXPECT_LT(reactor->clock().now_ns() - began_ns, 2 * kSecond);
    WaitQueue().wait_until_ns("for heartbeats", began_ns + 20 * kSecond);
    EXPECT_EQ(compiled_ns, 0);
    for (const HostStatus& host : client.status().hosts) EXPECT_EQ(host.suspect_ms, 0);
    large.join();
    EXPECT_GT(compiled_ns - began_ns, 30 * kSecond);
    other.close();
  });
}

TEST(SimCompile, EndsWithItsClient) {
  const auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, kSlowController, [&](SimCluster& cluster, const Client& client) {
    const Client other = cluster.connect("other");
    std::optional<Error> error;
    Fiber large = reactor->spawn("large", [&] {
      const Slice own = other.allocate({.devices = 4});  // 30 s.
      error = error_of([&] { own.compile(chain(own.mesh({{"data", 4}}), 3000)); });
    });
    WaitQueue().wait_until_ns("for a while", reactor->clock().now_ns() + kSecond);
    other.close();
    large.join();
    ASSERT_TRUE(error);
    WaitQueue().wait_until_ns("for the compile's end", reactor->clock().now_ns() + kSecond);
    EXPECT_EQ(cluster.controller.controller().counts().plans, 0u);
    client.allocate({.devices = 4});  // All devices are free.
  });
}

TEST(SimCompile, ACompileReportsItsProgressInRisingParts) {
  const auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, kSlowController, [&](SimCluster&, const Client& client) {
    std::vector<CompileProgress> told;
    const Slice slice = client.allocate({.devices = 2});
    slice.compile(chain(slice.mesh({{"data", 2}}), 300),
                  {.on_progress = [&](const CompileProgress& at) { told.push_back(at); }});
    ASSERT_GE(told.size(), 3u);
    EXPECT_LE(told.size(), 100u);
    EXPECT_EQ(told.front().what, "chain: verify");
    EXPECT_EQ(told.back().what, "installing on 1 hosts");
    for (size_t i = 1; i < told.size(); ++i) EXPECT_GT(told[i].part, told[i - 1].part);
  });
}

TEST(SimCompile, EndsWithTheController) {
  const auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    std::optional<Error> error;
    Fiber large;
    {
      SimCluster cluster(*reactor, kSlowController);
      const Client client = cluster.connect("trainer");
      large = reactor->spawn("large", [&error, client] {
        const Slice slice = client.allocate({.devices = 4});
        error = error_of([&] { slice.compile(chain(slice.mesh({{"data", 4}}), 3000)); });
        client.close();
      });
      WaitQueue().wait_until_ns("for a while", reactor->clock().now_ns() + kSecond);
    }
    large.join();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kUnavailable) << error->what();
  });
  EXPECT_EQ(reactor->live_fibers(), 0u);
}

}  // namespace
}  // namespace gangway
