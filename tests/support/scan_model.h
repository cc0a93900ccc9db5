// A small model of equal layers, as a scan and unrolled, with a loss and all its gradients: both
// must give the same results.
//
// Threads: a pure function.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"

namespace gangway::tests {

struct ScanModel {
  enum class Form { kScan, kUnrolled } form = Form::kScan;
  DType dtype = DType::kF64;
  int64_t layers = 3;
  bool remat = false;
  bool reverse = false;
  bool gradients = true;
};

namespace scan_model {

struct Layer {
  Value x, gain, w, bias;
};

// The layer's output, and a term of the loss.
inline std::pair<Value, Value> run(const Layer& l) {
  const Value h = tanh(dot(l.x, l.w) * l.gain + l.bias);
  const Value y = h + l.x * 0.5;
  return {y, sum(y * h, {1})};
}

inline Value row(Value stacked, int64_t i) {
  Dims dims = stacked.type().dims;
  dims.erase(dims.begin());
  return reshape(slice(stacked, 0, i, i + 1), dims);
}

inline std::pair<Value, Value> unrolled(const ScanModel& m, Value x, Value gain, Value w,
                                        Value bias) {
  std::vector<Value> terms(static_cast<size_t>(m.layers));
  for (int64_t i = 0; i < m.layers; ++i) {
    const int64_t at = m.reverse ? m.layers - 1 - i : i;
    auto [y, term] = run({x, gain, row(w, at), row(bias, at)});
    x = y;
    terms[static_cast<size_t>(at)] = reshape(term, {1, term.dim(0)});
  }
  return {x, concat(terms, 0)};
}

inline std::pair<Value, Value> scanned(const ScanModel& m, Value x, Value gain, Value w,
                                       Value bias) {
  Tree stacked;
  stacked.set("w", w);
  stacked.set("bias", bias);
  const ScanOperands operands{.length = m.layers,
                              .carries = x,
                              .invariants = gain,
                              .stacked = stacked,
                              .reverse = m.reverse,
                              .name = "layer"};
  const Scanned done = scan(x.builder(), operands, [&](const ScanStep& at) -> Scanned {
    const auto layer = [&] {
      return run({at.carries, at.invariants, at.slices["w"], at.slices["bias"]});
    };
    auto [y, term] = m.remat ? remat(at.builder, layer) : layer();
    return {.carries = y, .stacked = term};
  });
  return {done.carries, done.stacked};
}

}  // namespace scan_model

// Parameters: x, gain, w, bias. Results: y, terms, and with gradients the loss and its gradients by
// each parameter.
inline Function scan_model_function(const ScanModel& m, const Mesh& mesh = {}) {
  Builder b("model", mesh);
  const Value x = b.parameter("x", {m.dtype, {2, 4}}), gain = b.parameter("gain", {m.dtype, {4}});
  const Value w = b.parameter("w", {m.dtype, {m.layers, 4, 4}});
  const Value bias = b.parameter("bias", {m.dtype, {m.layers, 4}});
  auto [y, terms] = m.form == ScanModel::Form::kScan ? scan_model::scanned(m, x, gain, w, bias)
                                                     : scan_model::unrolled(m, x, gain, w, bias);
  b.result("y", y);
  b.result("terms", terms);
  if (m.gradients) {
    const Value loss = sum(square(y)) + sum(terms * 0.25);
    b.result("loss", loss);
    for (const Value& g : gradients(loss, {x, gain, w, bias}))
      b.result(cat("gradient.", b.function().results.size()), g);
  }
  return b.build();
}

}  // namespace gangway::tests
