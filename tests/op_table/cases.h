// The calls that the tests make of every op: shapes of size 0, 1, odd and even, and data away from
// ties and kinks.
//
// An op without a case fails the tests: a new row of the op table needs its entry here.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ir/graph/function.h"
#include "ir/op_table/op.h"
#include "runtime/base/rng.h"
#include "tests/interpret/literal.h"

namespace gangway::op_table {

struct OpCase {
  Op op;
  Attrs attrs;
  std::function<std::vector<Literal>(Rng&)> make;  // The inputs.
  std::shared_ptr<const Function> body;            // fusion, scan and call only.
};

// The values of an input.
enum class Fill {
  kAny,       // -2 to 2, away from integers.
  kPositive,  // 0.3 to 2.
  kDistinct,  // Values at least 0.1 apart.
  kInteger,   // -20 to 20.
  kBool,
};
Literal random_literal(Type type, Fill fill, Rng& rng);
// i32 from low to high - 1.
Literal random_index(Dims dims, int64_t low, int64_t high, Rng& rng);

// All cases. `dtype` stands for every float type that the op leaves open.
std::vector<OpCase> all_cases(DType dtype);

// Cases of collectives and of other ops that look at the mesh, on {data: 2}. They are apart, since
// not every kind of device has them; all_reduce and a shard_slice in even parts are among
// all_cases().
std::vector<OpCase> collective_cases(DType dtype);

// Each appends the cases of one family.
void add_elementwise_cases(DType dtype, std::vector<OpCase>& cases);
void add_shape_cases(DType dtype, std::vector<OpCase>& cases);
void add_index_cases(DType dtype, std::vector<OpCase>& cases);
void add_composite_cases(DType dtype, std::vector<OpCase>& cases);
void add_moe_cases(DType dtype, std::vector<OpCase>& cases);

struct Input {
  Type type;
  Fill fill = Fill::kAny;
};
inline std::function<std::vector<Literal>(Rng&)> inputs(std::vector<Input> specs) {
  return [specs = std::move(specs)](Rng& rng) {
    std::vector<Literal> literals;
    for (const Input& spec : specs) literals.push_back(random_literal(spec.type, spec.fill, rng));
    return literals;
  };
}

}  // namespace gangway::op_table
