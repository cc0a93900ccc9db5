// A program whose page has every kind of line and colour. Lines of this file stand in
// tests/golden/page/two_ways.json: tests/tool/page_documents_test.cc says how to write it anew.
//
// Threads: pure.
#pragma once

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "runtime/base/cat.h"

namespace gangway {

// Two ways from x to y: four products of 256 rows, and one addition. Rows of x lie on 2 devices.
inline Program two_ways() {
  ProgramBuilder b("two ways", Mesh{{{"data", 2}}});
  const Value w = b.state("w", zeros(f32({256, 256})));
  const Value x = b.input("x", f32({256, 256}), {{"data", shard(0)}});
  Value heavy = x;
  for (int i = 0; i < 4; ++i) {
    const Builder::Scope scope(b.builder(), cat("heavy.", i));
    heavy = dot(heavy, w);
  }
  Value light;
  {
    const Builder::Scope scope(b.builder(), "light");
    light = x + x;
  }
  const Value y = heavy * light;
  b.update(w, dot(x, y));
  b.output("y", sum(y, {0, 1}));
  return b.build();
}

}  // namespace gangway
