// Programs small enough to know their results.
//
// Threads: pure.
#pragma once

#include <memory>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway {

// w += scale * (the sum over x's rows) each run, with w: f32[8], and x: f32[16, 8] cut over all
// devices. Outputs the sum of the new w, and x doubled.
inline Program accumulate(const Mesh& mesh) {
  ProgramBuilder b("accumulate", mesh);
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({16, 8}), {{"data", shard(0)}});
  Value scale = b.input("scale", f32());
  Value next = w + sum(x, {0}) * scale;
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  b.output("twice", x + x, {{"data", shard(0)}});
  return b.build();
}

// y = x + 3, for x: f32[16, 8]. Each device's rows go from the first slice to the second and back;
// each of the three calls adds one.
inline Program there_and_back(const Mesh& mesh) {
  ProgramBuilder b("there and back", mesh);
  const uint32_t second = b.slice("second", mesh);
  Builder f("plus one", mesh);
  f.result("y", f.parameter("x", f32({16, 8}), {{"data", shard(0)}}) + 1.0);
  const auto plus_one = std::make_shared<const Function>(f.build());
  ProgramValue x = b.input_on(0, "x", f32({16, 8}), {{"data", shard(0)}});
  x = b.call(0, "here", plus_one, {x})[0];
  x = b.call(second, "there", plus_one, {b.transfer(x, second)})[0];
  x = b.call(0, "again", plus_one, {b.transfer(x, 0)})[0];
  b.output_of("y", x);
  Program program = b.build();
  for (ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kCall || node.kind == NodeKind::kOutput)
      node.placements[0] = {{"data", shard(0)}};
  }
  return program;
}

}  // namespace gangway
