// One model under several strategies, whose rules say what is cut over which devices; and layers of
// one's own, as a scan over their stacked weights, cut by an annotation.
#include <cstdio>
#include <vector>

#include "gangway.h"
#include "programs/optim/adamw.h"
#include "programs/strategies/strategies.h"

namespace gw = gangway;
using gw::programs::Strategy;

const gw::programs::TransformerConfig kModel{
    .vocab = 16, .seq = 16, .dim = 32, .layers = 2, .heads = 4, .hidden = 64};

gw::Program train_step(const gw::Mesh& mesh, const Strategy& strategy) {
  gw::programs::TransformerConfig model = kModel;
  model.activations = strategy.activations;
  gw::ProgramBuilder b("train_step", mesh);
  gw::Tree params = b.state("params", gw::programs::transformer_parameters(model),
                            gw::programs::below("params", strategy.parameters));
  gw::Value tokens = b.input("tokens", gw::i32({8, 16}), strategy.batch);
  gw::programs::Losses losses = gw::programs::transformer_loss(model, params, tokens);
  gw::Tree grads = gw::gradients(losses.total, params);
  grads = b.shard_all("params", grads, gw::programs::below("params", strategy.gradients));
  gw::programs::adamw(b, params, grads, {}, strategy.moments);
  b.output("loss", losses.cross_entropy);
  return b.build();
}

// Prints whether the loss fell in ten steps, and the bytes of state that a device keeps.
void train(const gw::Client& client, const char* names, const std::vector<gw::MeshAxis>& axes) {
  gw::Slice slice = client.allocate({.devices = 4});
  gw::Mesh mesh = slice.mesh(axes);
  gw::Executable step =
      slice.compile(train_step(mesh, gw::programs::strategy_of(names, mesh, kModel)));
  std::vector<int32_t> tokens(8 * 16);
  for (int i = 0; i < 8 * 16; ++i) tokens[i] = i * i % 16;
  float loss = 0;
  for (int i = 1; i <= 10; ++i) {
    gw::Run run = step.run({{"tokens", gw::HostTensor::of<int32_t>({8, 16}, tokens)},
                            {"lr", 1e-2f},
                            {"step", static_cast<float>(i)}});
    loss = run["loss"].item<float>();
  }
  std::printf("%-15s to below 0.1: %s, %6lld bytes of state\n", names, loss < 0.1f ? "yes" : "no",
              static_cast<long long>(step.memory().devices[0].state));
}

// x + down . tanh(up . x), four times; the hidden units are cut over "model".
gw::Function layers(const gw::Mesh& mesh) {
  gw::Builder b("layers", mesh);
  gw::Value x = b.parameter("x", gw::f32({8, 16}), {{"data", gw::shard(0)}});
  gw::Tree weights;
  weights.set("up", b.parameter("up", gw::f32({4, 16, 32}), {{"model", gw::shard(2)}}));
  weights.set("down", b.parameter("down", gw::f32({4, 32, 16}), {{"model", gw::shard(1)}}));
  auto layer = [](const gw::ScanStep& at) -> gw::Scanned {
    gw::Value hidden = gw::tanh(gw::dot(at.carries, at.slices["up"]));
    hidden = at.builder.shard(hidden, {{"model", gw::shard(1)}});
    return {.carries = at.carries + gw::dot(hidden, at.slices["down"])};
  };
  b.result("y", gw::scan(b, {.length = 4, .carries = x, .stacked = weights}, layer).carries);
  return b.build();
}

int main() try {
  gw::Client client = gw::connect("local:2x2");
  train(client, "data_parallel", {{"data", 4}});
  train(client, "zero3", {{"data", 4}});
  train(client, "zero3+megatron", {{"data", 2}, {"model", 2}});

  gw::Compiled compiled = gw::compile_function(layers({{{"data", 2}, {"model", 2}}}), {});
  std::printf("%s", gw::summary_of(gw::collectives_of(*compiled.local.function)).c_str());
} catch (const gw::Error& error) {
  return gw::report(error);
}
// Prints:
// data_parallel   to below 0.1: yes, 211200 bytes of state
// zero3           to below 0.1: yes,  54528 bytes of state
// zero3+megatron  to below 0.1: yes,  57600 bytes of state
// all_reduce over model: 4 tensors, 1024 bytes whole, 1024 sent by each device
