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

// Of the samples: GW_TEST_SEED, or 17.
uint64_t sample_seed();

struct Sample {
  Sample(const OpCase& op_case, Rng& rng);

  OpCall call() const { return {op, types, attrs, body.get()}; }
  // On one device: not what looks at a mesh, nor a user's kernel.
  bool can_evaluate() const;
  std::string text() const;

  Op op;
  std::shared_ptr<const Function> body;
  Attrs attrs;
  std::vector<Literal> in;
  std::vector<Type> types, results;
};

// One of every case, those of collectives among them.
std::vector<Sample> samples(DType dtype);

}  // namespace gangway::op_table
