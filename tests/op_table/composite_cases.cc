// Cases of the composites. Inputs that must agree with one another (a softmax and its result, a
// route and its tokens) come from the references.
#include "tests/interpret/interpret.h"
#include "tests/op_table/cases.h"

namespace gangway::op_table {
namespace {

DType accumulator(DType dtype) { return dtype == DType::kF64 ? dtype : DType::kF32; }

std::vector<Literal> run(Op op, const std::vector<Literal>& in, Attrs attrs) {
  std::vector<Type> types;
  for (const Literal& literal : in) types.push_back(literal.type);
  infer_types(op, types, attrs);
  return evaluate({op, types, attrs}, in);
}

void add_norms(DType dtype, std::vector<OpCase>& cases) {
  for (const Dims& dims : {Dims{4, 6}, Dims{5}, Dims{0, 3}, Dims{2, 3, 1}}) {
    Type x{dtype, dims}, row{dtype, {dims.back()}};
    cases.push_back({Op::softmax, {}, inputs({{x}}), {}});
    cases.push_back({Op::softmax_grad,
                     {},
                     [=](Rng& rng) {
                       Literal in = random_literal(x, Fill::kAny, rng);
                       return std::vector{run(Op::softmax, {in}, {})[0],
                                          random_literal(x, Fill::kAny, rng)};
                     },
                     {}});
    Attrs eps{{"eps", 1e-3}};
    cases.push_back({Op::rms_norm, eps, inputs({{x}, {row}}), {}});
    cases.push_back({Op::rms_norm_grad, eps, inputs({{x}, {row}, {x}}), {}});
    cases.push_back({Op::layer_norm, eps, inputs({{x}, {row}, {row}}), {}});
    cases.push_back({Op::layer_norm_grad, eps, inputs({{x}, {row}, {x}}), {}});
  }
}

void add_losses(DType dtype, std::vector<OpCase>& cases) {
  for (const Dims& dims : {Dims{4, 6}, Dims{5}, Dims{0, 3}, Dims{2, 3, 1}, Dims{2, 16}}) {
    Type x{dtype, dims};
    Dims rows(dims.begin(), dims.end() - 1);
    auto labelled = [=](Rng& rng) {
      return std::vector{random_literal(x, Fill::kAny, rng),
                         random_index(rows, 0, dims.back(), rng)};
    };
    auto dloss = [=](Rng& rng) {
      return random_literal({accumulator(dtype), rows}, Fill::kAny, rng);
    };
    cases.push_back({Op::cross_entropy, {}, labelled, {}});
    cases.push_back({Op::cross_entropy_grad,
                     {},
                     [=](Rng& rng) {
                       std::vector<Literal> in = labelled(rng);
                       in.push_back(run(Op::cross_entropy, in, {})[1]);
                       in.push_back(dloss(rng));
                       return in;
                     },
                     {}});
    cases.push_back({Op::cross_entropy_and_grad,
                     {},
                     [=](Rng& rng) {
                       std::vector<Literal> in = labelled(rng);
                       in.push_back(dloss(rng));
                       return in;
                     },
                     {}});
  }
}

void add_packed_attention(const Type& qkv, int64_t heads, double scale,
                          std::vector<OpCase>& cases) {
  for (bool causal : {false, true}) {
    const Attrs attrs{{"heads", heads}, {"scale", scale}, {"causal", causal}};
    cases.push_back({Op::packed_attention, attrs, inputs({{qkv}}), {}});
    cases.push_back({Op::packed_attention_grad,
                     attrs,
                     [=](Rng& rng) {
                       std::vector<Literal> in = {random_literal(qkv, Fill::kAny, rng)};
                       for (Literal& made : run(Op::packed_attention, in, attrs))
                         in.push_back(made);
                       in.push_back(random_literal(in[1].type, Fill::kAny, rng));
                       return in;
                     },
                     {}});
  }
}

void add_attention(DType dtype, std::vector<OpCase>& cases) {
  struct Shape {
    Dims dims;
    int64_t heads;
    double scale;
  };
  for (const Shape& s : {Shape{{2, 4, 8}, 2, 0}, Shape{{1, 3, 6}, 3, 0.7}, Shape{{0, 2, 4}, 1, 0},
                         Shape{{2, 1, 2}, 2, 0}}) {
    Type x{dtype, s.dims};
    for (bool causal : {false, true}) {
      Attrs attrs{{"heads", s.heads}, {"scale", s.scale}, {"causal", causal}};
      cases.push_back({Op::attention, attrs, inputs({{x}, {x}, {x}}), {}});
      cases.push_back({Op::attention_grad,
                       attrs,
                       [=](Rng& rng) {
                         std::vector<Literal> in;
                         for (int i = 0; i < 3; ++i)
                           in.push_back(random_literal(x, Fill::kAny, rng));
                         for (Literal& made : run(Op::attention, in, attrs)) in.push_back(made);
                         in.push_back(random_literal(x, Fill::kAny, rng));
                         return in;
                       },
                       {}});
    }
    add_packed_attention({dtype, {s.dims[0], s.dims[1], 3, s.dims[2]}}, s.heads, s.scale, cases);
    Attrs attrs{{"heads", s.heads}, {"scale", s.scale}};
    Type query{dtype, {s.dims[0], 1, s.dims[2]}};
    cases.push_back({Op::attention_decode,
                     attrs,
                     [=](Rng& rng) {
                       return std::vector{random_literal(query, Fill::kAny, rng),
                                          random_literal(x, Fill::kAny, rng),
                                          random_literal(x, Fill::kAny, rng),
                                          random_index({}, -1, s.dims[1] + 2, rng)};
                     },
                     {}});
  }
}

// Adds attention of some queries to some keys. Each query sees one key at least.
void add_part_of_attention(DType dtype, std::vector<OpCase>& cases) {
  struct Shape {
    int64_t queries, keys;
    double q_start, k_start;
  };
  for (const Shape& s :
       {Shape{3, 5, 4, 2}, Shape{4, 2, 8, 0}, Shape{2, 6, 3, 3}, Shape{3, 3, 0, 0}}) {
    const Type q{dtype, {2, s.queries, 4}}, k{dtype, {2, s.keys, 4}};
    const auto start = [](double at) { return Literal{i32(), {at}}; };
    for (bool causal : {false, true}) {
      const Attrs attrs{{"heads", int64_t{2}}, {"scale", 0.0}, {"causal", causal}};
      const auto operands = [=](Rng& rng) {
        return std::vector{random_literal(q, Fill::kAny, rng), random_literal(k, Fill::kAny, rng),
                           random_literal(k, Fill::kAny, rng), start(s.q_start), start(s.k_start)};
      };
      cases.push_back({Op::attention, attrs, operands, {}});
      cases.push_back({Op::attention_grad,
                       attrs,
                       [=](Rng& rng) {
                         std::vector<Literal> in = operands(rng);
                         const std::vector<Literal> made = run(Op::attention, in, attrs);
                         in.insert(in.begin() + 3,
                                   {made[0], made[1], random_literal(q, Fill::kAny, rng)});
                         return in;
                       },
                       {}});
    }
  }
}

void add_optimizer(DType dtype, std::vector<OpCase>& cases) {
  DType state = accumulator(dtype);
  for (const Dims& dims : {Dims{4, 6}, Dims{}, Dims{0, 3}, Dims{7}}) {
    cases.push_back({Op::sum_squares, {}, inputs({{{dtype, dims}}}), {}});
    Input p{{state, dims}}, scalar{{state, {}}, Fill::kPositive};
    Input v{{state, dims}, Fill::kPositive}, g{{dtype, dims}};
    cases.push_back({Op::adamw,
                     {{"weight_decay", 0.1}},
                     inputs({p, p, v, g, scalar, scalar, scalar, scalar}),
                     {}});
  }
}

}  // namespace

void add_composite_cases(DType dtype, std::vector<OpCase>& cases) {
  add_norms(dtype, cases);
  add_losses(dtype, cases);
  add_attention(dtype, cases);
  add_part_of_attention(dtype, cases);
  add_optimizer(dtype, cases);
}

void add_moe_cases(DType dtype, std::vector<OpCase>& cases) {
  struct Shape {
    int64_t groups, tokens, k, experts, capacity, dim;
  };
  for (const Shape& s :
       {Shape{2, 4, 2, 3, 0, 4}, Shape{2, 4, 2, 3, 2, 4}, Shape{1, 1, 1, 1, 1, 1},
        Shape{4, 5, 1, 2, 0, 3}, Shape{2, 3, 2, 4, 3, 2}, Shape{2, 0, 2, 2, 0, 2}}) {
    auto choices = [s](Rng& rng) {
      return random_index({s.groups, s.tokens, s.k}, -1, s.experts, rng);
    };
    auto routed = [=](Rng& rng) {
      return run(Op::moe_route, {choices(rng)}, {{"experts", s.experts}, {"capacity", s.capacity}});
    };
    int64_t slots = s.capacity > 0 ? s.experts * s.capacity : s.tokens * s.k, hidden = 6;
    auto any = [](Type type) { return Input{std::move(type)}; };
    Type x{dtype, {s.groups, s.tokens, s.dim}}, y{dtype, {s.groups, slots, s.dim}};
    Type gate{dtype, {s.groups, s.tokens, s.k}}, out{dtype, {s.groups, slots, hidden}};
    Type w{dtype, {s.experts, s.dim, hidden}}, wt{dtype, {s.experts, hidden, s.dim}};
    // Float inputs, then results `from` to `to` of the route.
    auto with_route = [=](std::vector<Input> floats, size_t from, size_t to) {
      return [=](Rng& rng) {
        std::vector<Literal> in = inputs(floats)(rng);
        std::vector<Literal> route = routed(rng);
        for (size_t i = from; i <= to; ++i) in.push_back(route[i]);
        return in;
      };
    };
    cases.push_back({Op::moe_route,
                     {{"experts", s.experts}, {"capacity", s.capacity}},
                     [=](Rng& rng) { return std::vector{choices(rng)}; },
                     {}});
    cases.push_back({Op::moe_dispatch, {{"k", s.k}}, with_route({any(x)}, 0, 1), {}});
    cases.push_back({Op::moe_combine, {}, with_route({any(y), any(gate)}, 0, 1), {}});
    cases.push_back({Op::moe_combine_grad_y, {}, with_route({any(x), any(gate)}, 0, 1), {}});
    cases.push_back({Op::moe_combine_grad_w, {}, with_route({any(x), any(y)}, 0, 1), {}});
    const std::vector<Input> forward = {any(y), any(w)}, back = {any(y), any(wt)};
    const std::vector<Input> weight = {any(y), any(out)};
    if (s.capacity > 0) {
      const AttrValue capacity = s.capacity;
      cases.push_back({Op::grouped_dot, {{"capacity", capacity}}, inputs(forward), {}});
      cases.push_back(
          {Op::grouped_dot, {{"transpose_w", true}, {"capacity", capacity}}, inputs(back), {}});
      cases.push_back({Op::grouped_dot_grad_w, {{"capacity", capacity}}, inputs(weight), {}});
    } else {
      cases.push_back({Op::grouped_dot, {}, with_route(forward, 2, 2), {}});
      cases.push_back({Op::grouped_dot, {{"transpose_w", true}}, with_route(back, 2, 2), {}});
      cases.push_back({Op::grouped_dot_grad_w, {}, with_route(weight, 2, 2), {}});
    }
  }
}

}  // namespace gangway::op_table
