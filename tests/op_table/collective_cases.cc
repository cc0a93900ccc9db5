// Cases of collectives, and of ops that look at the mesh without communicating.
#include <algorithm>

#include "runtime/base/cat.h"
#include "tests/op_table/cases.h"

namespace gangway::op_table {
namespace {

Attrs on_data(Attrs attrs) {
  attrs.set("axes", std::string("data"));
  return attrs;
}

Attrs two(Attrs attrs) {
  attrs.set("parts", int64_t{2});
  return on_data(std::move(attrs));
}

void add_moves(DType dtype, std::vector<OpCase>& cases) {
  for (const Dims& dims : {Dims{3, 4}, Dims{1, 1}, Dims{0, 3}, Dims{4, 2, 5}}) {
    const Type type{dtype, dims};
    const auto add = [&](Op op, Attrs attrs) {
      cases.push_back({op, std::move(attrs), inputs({{type}}), {}});
    };
    const int64_t rows = dims[0];
    for (int64_t size : {2 * rows, std::max<int64_t>(0, 2 * rows - 1)}) {
      add(Op::all_gather, two({{"dim", int64_t{0}}, {"size", size}}));
      add(Op::all_to_all,
          two({{"split_dim", int64_t{1}}, {"concat_dim", int64_t{0}}, {"size", size}}));
    }
    for (const char* reduction : {"sum", "max", "min"}) {
      add(Op::reduce_scatter, two({{"dim", int64_t{0}}, {"reduction", std::string(reduction)}}));
    }
    add(Op::permute, on_data({{"to", std::string("data")}, {"shift", int64_t{1}}}));
    add(Op::collective_broadcast, on_data({{"root", int64_t{1}}}));
    add(Op::keep_first, on_data({}));
    add(Op::shard_slice,
        {{"axis", std::string("data")}, {"dim", int64_t{0}}, {"parts", int64_t{2}}});
  }
}

// A device's half of a random tensor.
void add_random_parts(DType dtype, std::vector<OpCase>& cases) {
  for (Op op : {Op::random_uniform, Op::random_normal}) {
    for (int64_t dim : {0, 1, 2}) {
      for (const Dims& whole : {Dims{4, 6, 10}, Dims{2, 2, 6}}) {
        Dims part = whole;
        part[static_cast<size_t>(dim)] /= 2;
        const Attrs attrs{{"dims", part},
                          {"dtype", dtype},
                          {"offset", Dims{3}},
                          {"whole", whole},
                          {"placements", cat("data: shard(", dim, ")")}};
        cases.push_back({op, attrs, inputs({{i32({2}), Fill::kInteger}}), {}});
      }
    }
  }
}

}  // namespace

std::vector<OpCase> collective_cases(DType dtype) {
  std::vector<OpCase> cases;
  add_moves(dtype, cases);
  add_random_parts(dtype, cases);
  cases.push_back({Op::axis_index, on_data({}), inputs({}), {}});
  for (int64_t bound : {0, 3, 8}) {
    const Type rows{dtype, {4, 2}};
    cases.push_back({Op::ragged_all_to_all,
                     two({{"bound", bound}}),
                     [rows](Rng& rng) {
                       return std::vector{random_literal(rows, Fill::kAny, rng),
                                          random_index({2}, -1, 5, rng)};
                     },
                     {}});
  }
  return cases;
}

}  // namespace gangway::op_table
