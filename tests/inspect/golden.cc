#include "tests/inspect/golden.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "runtime/base/cat.h"
#include "tests/support/places.h"

namespace gangway {

Program with_batch_over(const Mesh& mesh) {
  ProgramBuilder b("train_step", mesh);
  StateTree of_layers, specs;
  of_layers.set("w", normal(f32({4, 16, 16}), 0.02));
  of_layers.set("b", zeros(f32({4, 16})));
  specs.set("embed", normal(f32({32, 16}), 0.02));
  specs.set("layers", of_layers);
  const Tree params = b.state("params", specs);
  for (const char* slot : {"adamw.m", "adamw.v"}) {
    for (const char* of : {"embed", "w", "b"}) {
      const Value state = b.state(cat(slot, ".", of), zeros(f32({16, 16})));
      b.update(state, state * 0.5);
    }
  }
  const Value x = b.input("x", f32({8, 16}), {{"data", shard(0)}});
  const Value y =
      scan(x.builder(), {.length = 4, .carries = x, .stacked = params["layers"], .name = "layers"},
           [](const ScanStep& at) -> Scanned {
             return {.carries = tanh(dot(at.carries, at.slices["w"]))};
           })
          .carries;
  const Builder::Scope scope(b.builder(), "head");
  const Value logits = dot(y, transpose(params["embed"]));
  b.update(params["embed"], params["embed"] * 0.99);
  b.output("loss", mean(logits));
  return b.build();
}

Program golden_program() { return with_batch_over(Mesh{{{"data", 2}}}); }

void expect_golden(const std::string& file, const std::string& text) {
  std::ifstream in(cat(tests::source_folder(), "/tests/golden/inspect/", file));
  const std::string golden{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(golden, text) << file << " ought to be:\n" << text;
}

}  // namespace gangway
