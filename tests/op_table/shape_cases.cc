// Cases of the ops that move, reduce and multiply.
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "tests/op_table/cases.h"

namespace gangway::op_table {
namespace {

using Ints = std::vector<int64_t>;

struct Cases {
  DType dtype;
  std::vector<OpCase>& list;
  void add(Op op, Attrs attrs, const std::vector<Dims>& shapes, Fill fill = Fill::kAny) {
    std::vector<Input> specs;
    for (const Dims& dims : shapes) specs.push_back({{dtype, dims}, fill});
    list.push_back({op, std::move(attrs), inputs(std::move(specs)), {}});
  }
};

void add_moves(Cases& c) {
  auto broadcast = [&](Dims from, Dims to, Ints map) {
    c.add(Op::broadcast, {{"dims", to}, {"map", map}}, {from});
  };
  broadcast({4, 1}, {4, 6}, {0, 1});
  broadcast({6}, {2, 6}, {1});
  broadcast({2}, {2, 4, 1}, {0});
  broadcast({}, {3, 2}, {});
  broadcast({1, 3}, {0, 2, 3}, {0, 2});
  auto reshape = [&](Dims from, Dims to) { c.add(Op::reshape, {{"dims", to}}, {from}); };
  reshape({4, 6}, {24});
  reshape({24}, {4, 6});
  reshape({2, 4, 3}, {8, 3});
  reshape({8, 3}, {2, 4, 3});
  reshape({4, 6}, {6, 4});
  reshape({1, 4, 1}, {4});
  reshape({}, {1, 1});
  reshape({0, 3}, {3, 0});
  auto transpose = [&](Dims from, Ints p) { c.add(Op::transpose, {{"permutation", p}}, {from}); };
  transpose({4, 6}, {1, 0});
  transpose({2, 3, 4}, {2, 0, 1});
  transpose({0, 1}, {1, 0});
  transpose({}, {});
  auto slice = [&](Dims from, Ints starts, Ints limits, Ints strides) {
    c.add(Op::slice, {{"starts", starts}, {"limits", limits}, {"strides", strides}}, {from});
  };
  slice({4, 6}, {0, 1}, {4, 5}, {1, 1});
  slice({4, 6}, {0, 1}, {4, 6}, {1, 2});
  slice({5, 7}, {1, 0}, {5, 7}, {2, 3});
  slice({5}, {5}, {5}, {1});
  c.add(Op::concat, {{"axis", int64_t{1}}}, {{2, 3}, {2, 0}, {2, 4}});
  c.add(Op::concat, {{"axis", int64_t{0}}}, {{1, 4}});
  auto pad = [&](Dims from, Ints low, Ints high, double value) {
    c.add(Op::pad, {{"low", low}, {"high", high}, {"value", value}}, {from});
  };
  pad({4, 6}, {0, 1}, {0, 2}, 0);
  pad({3}, {2}, {0}, 1.5);
  pad({0}, {1}, {1}, -1);
}

void add_sources(Cases& c) {
  for (const Dims& dims : {Dims{4, 6}, Dims{1}, Dims{0, 2}}) {
    c.add(Op::constant, {{"dims", dims}, {"dtype", c.dtype}, {"value", 0.5}}, {});
    c.add(Op::iota, {{"dims", dims}, {"dtype", c.dtype}, {"axis", int64_t{0}}}, {});
    c.add(Op::iota, {{"dims", dims}, {"dtype", DType::kI32}, {"axis", int64_t{0}}}, {});
    c.add(Op::custom_call,
          {{"path", std::string("/libf.so")},
           {"library", std::string("0")},
           {"symbol", std::string("f")},
           {"dims", dims},
           {"dtype", c.dtype}},
          {dims});
  }
  c.add(Op::table, {{"values", Ints{5}}}, {});
  c.add(Op::table, {{"values", Ints{7, -3, 0, 2147483647, -2147483648}}}, {});
  Attrs slice{{"axis", std::string("data")}, {"dim", int64_t{0}}, {"parts", int64_t{2}}};
  c.add(Op::shard_slice, slice, {{4, 6}});
}

void add_reductions(Cases& c) {
  for (Op op : {Op::reduce_sum, Op::reduce_max, Op::reduce_min}) {
    for (const Ints& axes : {Ints{0}, Ints{1, 2}, Ints{}, Ints{0, 1, 2}})
      c.add(op, {{"axes", axes}}, {{2, 3, 4}}, Fill::kDistinct);
    c.add(op, {{"axes", Ints{1}}}, {{0, 3}});
    c.list.push_back({op, {{"axes", Ints{1}}}, inputs({{i32({4, 3}), Fill::kInteger}}), {}});
  }
  c.add(Op::reduce_sum, {{"axes", Ints{1}}}, {{3, 0}});
  for (int64_t axis : {0, 1, 2}) {
    c.add(Op::argmax, {{"axis", axis}}, {{2, 3, 4}}, Fill::kDistinct);
    c.add(Op::cumsum, {{"axis", axis}}, {{2, 3, 4}});
  }
  c.add(Op::cumsum, {{"axis", int64_t{1}}}, {{4, 0}});
}

void add_dots(Cases& c) {
  auto dot = [&](Dims a, Dims b, DotDims d) {
    Attrs attrs{{"lhs_batch", d.lhs_batch},
                {"rhs_batch", d.rhs_batch},
                {"lhs_contract", d.lhs_contract},
                {"rhs_contract", d.rhs_contract}};
    c.add(Op::dot, attrs, {a, b});
  };
  dot({4, 6}, {6, 2}, {{}, {}, {1}, {0}});
  dot({4, 6}, {2, 6}, {{}, {}, {1}, {1}});
  dot({2, 3, 4}, {2, 4, 5}, {{0}, {0}, {2}, {1}});
  dot({3, 2, 4}, {4, 5, 2}, {{1}, {2}, {2}, {0}});
  dot({2, 3, 4, 5}, {4, 2, 3, 6}, {{0}, {1}, {1, 2}, {2, 0}});
  dot({2, 3}, {3, 2}, {{}, {}, {0, 1}, {1, 0}});
  dot({3}, {4}, {{}, {}, {}, {}});
  dot({0, 6}, {6, 2}, {{}, {}, {1}, {0}});
  dot({4, 0}, {0, 2}, {{}, {}, {1}, {0}});
}

// exp(x) * y as a fused chain.
void add_fusion(Cases& c) {
  Builder b("chain");
  Type type{c.dtype, {4, 6}};
  Value x = b.parameter("x", type), y = b.parameter("y", type);
  b.result("z", exp(x) * y);
  auto body = std::make_shared<const Function>(b.build());
  c.list.push_back({Op::fusion, {}, inputs({{type}, {type}}), body});
}

// A case of the last node that a builder holds, and its operands, which are parameters.
void add_traced(Cases& c, const Builder& b) {
  const Function& f = b.function();
  const Node& node = f.nodes.back();
  std::vector<Input> operands;
  for (ValueId input : node.inputs) operands.push_back({f.types[input]});
  c.list.push_back({node.op, node.attrs, inputs(std::move(operands)), node.body});
}

void add_bodies(Cases& c) {
  const Type row{c.dtype, {4}};
  for (int64_t length : {0, 1, 3}) {
    for (bool reverse : {false, true}) {
      Builder b("scan");
      const Value x = b.parameter("x", row), w = b.parameter("w", row);
      const Value rows = b.parameter("rows", {c.dtype, {length, 4}});
      scan(b,
           {.length = length, .carries = x, .invariants = w, .stacked = rows, .reverse = reverse},
           [](const ScanStep& at) -> Scanned {
             const Value y = tanh(at.carries * at.invariants + at.slices);
             return {.carries = y, .stacked = y * at.slices};
           });
      add_traced(c, b);
    }
  }
  Builder inner("inner");
  const Value x = inner.parameter("x", row), w = inner.parameter("w", row);
  inner.result("y", tanh(x * w));
  Builder b("call");
  call(b, std::make_shared<const Function>(inner.build()),
       {b.parameter("x", row), b.parameter("w", row)});
  add_traced(c, b);
}

}  // namespace

void add_shape_cases(DType dtype, std::vector<OpCase>& cases) {
  Cases c{dtype, cases};
  add_moves(c);
  add_sources(c);
  add_reductions(c);
  add_dots(c);
  add_fusion(c);
  add_bodies(c);
}

}  // namespace gangway::op_table
