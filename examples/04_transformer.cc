// A mixture-of-experts transformer learns to continue one sequence, data-parallel over two devices.
#include <cstdio>
#include <vector>

#include "gangway.h"
#include "programs/models/transformer.h"
#include "programs/optim/adamw.h"

namespace gw = gangway;

const gw::programs::TransformerConfig kModel{.vocab = 16,
                                             .seq = 16,
                                             .dim = 32,
                                             .layers = 2,
                                             .heads = 2,
                                             .hidden = 32,
                                             .moe = {.experts = 4, .groups = 2}};

gw::Program train_step(const gw::Mesh& mesh) {
  gw::ProgramBuilder b("train_step", mesh);
  gw::Tree params = b.state("params", gw::programs::transformer_parameters(kModel));
  gw::Value tokens = b.input("tokens", gw::i32({4, 16}), {{"data", gw::shard(0)}});
  gw::programs::Losses losses = gw::programs::transformer_loss(kModel, params, tokens);
  gw::programs::adamw(b, params, gw::gradients(losses.total, params), {});
  b.output("loss", losses.cross_entropy);
  b.require_finite("loss");  // A step that diverges leaves the parameters as they were.
  return b.build();
}

int main() try {
  gw::Client client = gw::connect("local:1x2");
  gw::Slice slice = client.allocate({.devices = 2});
  gw::Executable step = slice.compile(train_step(slice.mesh({{"data", 2}})));

  std::vector<int32_t> tokens(4 * 16);
  for (int i = 0; i < 4 * 16; ++i) tokens[i] = i * i % 16;
  float first = 0, last = 0;
  for (int i = 1; i <= 60; ++i) {
    gw::Run run = step.run({{"tokens", gw::HostTensor::of<int32_t>({4, 16}, tokens)},
                            {"lr", 1e-2f},
                            {"step", static_cast<float>(i)}});
    if (i == 1) first = run["loss"].item<float>();
    if (i == 60) last = run["loss"].item<float>();
  }
  std::printf("from above 2 nats: %s, to below 0.1: %s\n", first > 2 ? "yes" : "no",
              last < 0.1f ? "yes" : "no");
} catch (const gw::Error& error) {
  return gw::report(error);
}
// Prints:
// from above 2 nats: yes, to below 0.1: yes
