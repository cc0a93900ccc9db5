// A case with its data and inferred attributes, for tests that walk the op table.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/op_table/cases.h"

namespace gangway::op_table {

// The seed of samples: GW_TEST_SEED, or 17.
uint64_t sample_seed();

struct Sample {
  Sample(const OpCase& op_case, Rng& rng);

  OpCall call() const { return {op, types, attrs, body.get()}; }
  // True if one device can evaluate it: the op looks at no mesh, and is no user's kernel.
  bool can_evaluate() const;
  std::string text() const;

  Op op;
  std::shared_ptr<const Function> body;
  Attrs attrs;
  std::vector<Literal> in;
  std::vector<Type> types, results;
};

// One sample of every case, including those of collectives.
std::vector<Sample> samples(DType dtype);

}  // namespace gangway::op_table
