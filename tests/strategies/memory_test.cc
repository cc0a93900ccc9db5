// Tests how much memory a device needs under a strategy: the planned bytes, and the bytes that
// executors count where they hand out memory.
#include <gtest/gtest.h>

#include <map>

#include "runtime/fibers/wait_queue.h"
#include "tests/sim/with_client.h"
#include "tests/strategies/compiled_step.h"
#include "tests/strategies/strategy_case.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

class MemoryTest : public FolderTest {
 protected:
  LanguageModelConfig config() {
    LanguageModelConfig config = model_config(ModelKind::kDense);
    config.text = write("text.txt", readable_text(4'000)).string();
    config.model.dim = 512;  // Every part of a norm's weight is as long as an allocation.
    config.model.hidden = 512;
    config.model.vocab = 256;
    config.model.seq = 8;
    config.model.layers = 1;
    return config;
  }
};

TEST_F(MemoryTest, UnderZero3StatesAndGradientsFallWithTheNumberOfDevices) {
  const LanguageModelConfig model = config();
  const int64_t parameters = 4 * parameter_count(model.model);
  for (const int64_t n : {1, 2, 4, 8}) {
    SCOPED_TRACE(n);
    const Mesh mesh{{{"data", n}}};
    const Strategy strategy = strategy_of("zero3", mesh, model.model);
    const Program program = train_step(model, mesh, strategy);
    int64_t gradients = 0;
    const Function local = local_function(program);
    for (const Node& node : local.nodes) {
      if (node.op == Op::adamw) gradients += local.types[node.inputs[3]].bytes();
    }
    EXPECT_EQ(gradients * n, parameters);
    auto reactor = Reactor::make_simulated({.seed = 1});
    const SimClusterOptions options{.hosts = 1, .devices_per_host = static_cast<int>(n)};
    with_client(*reactor, options, [&](const SimCluster& cluster, const Client& client) {
      Slice slice = client.allocate({.devices = n});
      const Executable step = slice.compile(program);
      const auto devices = step.memory().devices;
      ASSERT_EQ(devices.size(), static_cast<size_t>(n));
      for (const auto& device : devices) EXPECT_EQ(device.state * n, 3 * parameters);
      const Host& host = cluster.executors[0]->host();
      // Initialisers have run. They needed no more memory than the step has.
      for (uint32_t d = 0; d < devices.size(); ++d) {
        EXPECT_EQ(host.bytes_peak(d), devices[d].total());
        EXPECT_EQ(host.bytes_in_use(d), devices[d].total());
      }
      step.run({{"lr", 0.01f}, {"step", 1.0f}}).wait();
      for (uint32_t d = 0; d < devices.size(); ++d)
        EXPECT_EQ(host.bytes_in_use(d), devices[d].total());
      // Hosts report with their heartbeats, one a second.
      WaitQueue().wait_until_ns("for heartbeats", reactor->clock().now_ns() + 2'000'000'000);
      EXPECT_EQ(client.status().hosts[0].memory_used, devices[0].total());
    });
  }
}

// Whatever the depth, the only whole tensors are the gathered weights of two layers, the gradients
// of one layer that are not scattered yet, those of the layer before that are being scattered
// meanwhile, and embeddings.
TEST_F(MemoryTest, UnderZero3AtMostTwoLayersAreGatheredAtATime) {
  LanguageModelConfig model = config();
  model.batch = 8;
  model.model.layers = 2;
  const int64_t two_layers = parameter_count(model.model);
  model.model.layers = 1;
  const int64_t layer = 4 * (two_layers - parameter_count(model.model));  // Bytes of one layer.
  for (const int64_t n : {2, 4, 8}) {
    SCOPED_TRACE(n);
    const Mesh mesh{{{"data", n}}};
    std::map<int64_t, int64_t> work;  // Key: layers. Bytes that a device needs besides states.
    for (const int64_t layers : {4, 12}) {
      model.model.layers = layers;
      const Program program = train_step(model, mesh, strategy_of("zero3", mesh, model.model));
      auto reactor = Reactor::make_simulated({.seed = 1});
      const SimClusterOptions options{.hosts = 1,
                                      .devices_per_host = static_cast<int>(n),
                                      .memory_bytes = 256 << 20,
                                      .timed_only = true};
      with_client(*reactor, options, [&](const SimCluster& cluster, const Client& client) {
        Slice slice = client.allocate({.devices = n});
        const Executable step = slice.compile(program);
        const auto devices = step.memory().devices;
        ASSERT_EQ(devices.size(), static_cast<size_t>(n));
        step.run({{"lr", 0.01f}, {"step", 1.0f}}).wait();
        const Host& host = cluster.executors[0]->host();
        for (uint32_t d = 0; d < devices.size(); ++d) {
          EXPECT_EQ(devices[d].total(), devices[0].total());
          EXPECT_EQ(devices[d].state, devices[0].state);
          EXPECT_EQ(host.bytes_peak(d), devices[d].total());
          EXPECT_EQ(host.bytes_in_use(d), devices[d].total());
        }
        work[layers] = devices[0].total() - devices[0].state;
      });
    }
    // One layer more adds its scattered gradients and the activations that it keeps.
    const int64_t deeper = (work[12] - work[4]) / 8;
    EXPECT_GE(deeper, layer / n);
    EXPECT_LT(deeper, layer / n * 5 / 4);
    // The device also holds its cut part of the layer that is being scattered.
    EXPECT_LT(work[4] - 4 * deeper, 4 * layer + layer / n + layer / 4);
  }
}

}  // namespace
}  // namespace gangway::programs
