// A stack of layers as one scan, with its loss and gradients; the batch and the stored weights are
// cut over "data" (ZeRO-3).
//
// Threads: a pure function.
#pragma once

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"

namespace gangway::tests {

struct StoredLayers {
  int64_t length = 3;
  bool reverse = false;
  int64_t width = 4;
};

// Parameters: x, gain, up, down. Results: a row of each layer, the loss, the gradients.
inline Function stored_layers(const StoredLayers& of, const Mesh& mesh) {
  const int64_t wide = 2 * of.width;
  Builder b("layers", mesh);
  const Value x = b.parameter("x", f64({64, of.width}), {{"data", shard(0)}});
  const Value gain = b.parameter("gain", f64({of.width}));
  Tree weights;
  weights.set("up", b.parameter("up", f64({of.length, of.width, wide}), {{"data", shard(1)}}));
  weights.set("down", b.parameter("down", f64({of.length, wide, of.width}), {{"data", shard(2)}}));
  Value means;
  const auto loss = [&](const Tree& w, Value in) {
    const ScanOperands operands{.length = of.length,
                                .carries = in,
                                .invariants = gain,
                                .stacked = w,
                                .reverse = of.reverse,
                                .name = "layer"};
    const Scanned out = scan(b, operands, [](const ScanStep& at) -> Scanned {
      const Value h = tanh(dot(Value(at.carries) * Value(at.invariants), at.slices["up"]));
      const Value y = Value(at.carries) + dot(h, at.slices["down"]);
      return {.carries = y, .stacked = mean(y, {0})};
    });
    means = out.stacked;
    return mean(square(out.carries));
  };
  auto [value, grads] = value_and_grad(loss)(weights, x);
  b.result("means", means);
  b.result("loss", value);
  b.result("up'", grads["up"]);
  b.result("down'", grads["down"]);
  return b.build();
}

}  // namespace gangway::tests
