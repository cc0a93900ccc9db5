// Layers that are a scan, over several emulated cards: weights are stored in parts, gathered in
// each iteration of the forward and the backward pass and their gradients scattered there;
// gradients of biases, which each device holds whole, are summed there. They train as on CPU
// devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "controller/plans/lower.h"
#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "ir/graph/bodies.h"
#include "ir/op_table/op.h"
#include "tests/cuda/cuda_cluster.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr int64_t kLayers = 4, kBatch = 16, kWidth = 8, kDevices = 4;

Value layers(const Value& x, const Tree& weights) {
  const Scanned out = scan(
      x.builder(), {.length = kLayers, .carries = x, .stacked = weights},
      [](const ScanStep& at) -> Scanned {
        const Value in = at.carries, bias = at.slices["bias"];
        const Value h = tanh(dot(in, at.slices["up"]) + broadcast_to(bias, {kBatch, 2 * kWidth}));
        return {.carries = in + dot(h, at.slices["down"])};
      });
  return out.carries;
}

// A step of gradient descent.
Program train_step(const Mesh& mesh) {
  ProgramBuilder b("layers", mesh, 7);
  StateTree specs;
  specs.set("up", normal(f32({kLayers, kWidth, 2 * kWidth}), 0.3));
  specs.set("down", normal(f32({kLayers, 2 * kWidth, kWidth}), 0.3));
  specs.set("bias", zeros(f32({kLayers, 2 * kWidth})));
  const std::vector<PlacementRule> rules = {{"up", {{"data", shard(1)}}},
                                            {"down", {{"data", shard(2)}}}};
  const Tree params = b.state("", specs, rules);
  const Value x = b.input("x", f32({kBatch, kWidth}), {{"data", shard(0)}});
  const Value loss = mean(square(layers(x, params)));
  const Tree grads = b.shard_all("", gradients(loss, params), rules);
  b.update(params, params.map([&](const std::string& name, const Value& p) {
    return Value(p - grads[name] * 0.1);
  }));
  b.output("loss", loss);
  b.require_finite("loss");
  return b.build();
}

// The collectives in bodies of the program once it is cut.
std::set<Op> collectives_in_bodies(const Program& program) {
  CompileCache cache;
  const LowerOptions options{.slices = {{{0, 0, kDevices}}}, .hosts = {"host-0"}};
  BodyTable bodies;
  const Plan plan = lower(program, options, cache);
  for (const LocalFunction& local : plan.functions) bodies.add(*local.function);
  std::set<Op> found;
  for (uint32_t b = 0; b < bodies.size(); ++b) {
    for (const Node& node : bodies[b].nodes) {
      if (row(node.op).meets) found.insert(node.op);
    }
  }
  return found;
}

struct Trained {
  std::vector<float> losses, up, bias;
};

Trained train(const HostOptions& host) {
  Trained done;
  with_cluster(host, [&](const Client& client) {
    const Slice slice = client.allocate(
        {.devices = kDevices, .ranks_per_device = kDevices / int64_t{host.devices}});
    const Executable step = slice.compile(train_step(slice.mesh({{"data", kDevices}})));
    std::vector<float> rows(kBatch * kWidth);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<float>(i * 37 % 64) / 32.0f - 1.0f;
    const HostTensor x = HostTensor::of<float>({kBatch, kWidth}, rows);
    for (int i = 0; i < 4; ++i) done.losses.push_back(step.run({{"x", x}})["loss"].item<float>());
    const auto state = [&](const char* name) {
      const HostTensor tensor = slice.read_state(name);
      const auto values = tensor.as<float>();
      return std::vector<float>(values.begin(), values.end());
    };
    done.up = state("up");
    done.bias = state("bias");
  });
  return done;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4f) << i;
}

TEST(CudaLayers, AScanOverStoredWeightsTrainsAsOnCpuDevices) {
  EXPECT_THAT(collectives_in_bodies(train_step(Mesh{{{"data", kDevices}}})),
              ::testing::IsSupersetOf({Op::all_reduce, Op::all_gather, Op::reduce_scatter}));
  const Trained want = train({.devices = kDevices, .threads = 1});
  EXPECT_LT(want.losses.back(), want.losses.front());
  struct Place {
    int devices;
    uint32_t cards;
  };
  // Four devices of one card; a card for each; two ranks on each of two cards; four ranks on one.
  for (const Place place : {Place{4, 1}, {4, 4}, {2, 2}, {1, 1}}) {
    for (uint64_t seed = tests::test_seed(); seed < tests::test_seed() + 3; ++seed) {
      SCOPED_TRACE(cat(place.devices, " devices, ", place.cards, " cards, seed ", seed));
      const auto machine = emulated::make_machine(seed, place.cards);
      HostOptions host{.kind = DeviceKind::kCuda, .devices = place.devices};
      for (uint32_t card = 0; card < place.cards; ++card)
        host.gpus.push_back(emulated::driver_of(machine, card));
      const Trained got = train(host);
      expect_near(got.losses, want.losses);
      expect_near(got.up, want.up);
      expect_near(got.bias, want.bias);
      EXPECT_EQ(machine->report_text(), "");
    }
  }
}

}  // namespace
}  // namespace gangway
