// A model whose layers are a scan, trained on a CPU device, against the same layers unrolled.
#include <gtest/gtest.h>

#include "client/client.h"
#include "ir/build/program_builder.h"
#include "tests/support/scan_model.h"

namespace gangway {
namespace {

using tests::ScanModel;

constexpr int64_t kLayers = 3;

// A step of gradient descent on all states, which are stacks of the layers' own.
Program train_step(const Mesh& mesh, const ScanModel& model) {
  ProgramBuilder b("layers", mesh, 7);
  StateTree specs;
  specs.set("gain", filled(f32({4}), 1.0));
  specs.set("w", normal(f32({kLayers, 4, 4}), 0.5));
  specs.set("bias", zeros(f32({kLayers, 4})));
  const Tree params = b.state("", specs);
  const Value x = b.input("x", f32({2, 4}));
  const auto trace = model.form == ScanModel::Form::kScan ? tests::scan_model::scanned
                                                          : tests::scan_model::unrolled;
  auto [y, terms] = trace(model, x, params["gain"], params["w"], params["bias"]);
  const Value loss = mean(square(y)) + sum(terms * 0.1);
  const Tree grads = gradients(loss, params);
  b.update(params, params.map([&](const std::string& name, const Value& p) {
    return Value(p - grads[name] * 0.1);
  }));
  b.output("loss", loss);
  b.require_finite("loss");
  return b.build();
}

struct Trained {
  std::vector<float> losses, w, gain, bias;
  bool operator==(const Trained&) const = default;
};

Trained train(const ScanModel& model) {
  Client client = connect("local:1x1", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice = client.allocate({.devices = 1});
  Executable step = slice.compile(train_step(slice.mesh({{"data", 1}}), model));
  const HostTensor x =
      HostTensor::of<float>({2, 4}, std::vector<float>{1, -2, 0.5, 3, 0.25, -1, 2, -0.5});
  Trained done;
  for (int i = 0; i < 5; ++i) done.losses.push_back(step.run({{"x", x}})["loss"].item<float>());
  const auto state = [&](const char* name) {
    const HostTensor tensor = slice.read_state(name);
    const auto values = tensor.as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  done.w = state("w");
  done.gain = state("gain");
  done.bias = state("bias");
  return done;
}

TEST(ScanTraining, AScannedModelHasTheBitsOfTheUnrolledOneAndLearns) {
  const Trained unrolled = train({.form = ScanModel::Form::kUnrolled, .layers = kLayers});
  EXPECT_LT(unrolled.losses.back(), unrolled.losses.front());
  EXPECT_EQ(train({.layers = kLayers}), unrolled);
  EXPECT_EQ(train({.layers = kLayers, .remat = true}), unrolled);
}

}  // namespace
}  // namespace gangway
