// Times of the CPU kernels, and the two limits of a machine to compare them with: the rate of
// oneDNN's matrix product and that of a copy.
//
// Why: training speed is judged as a share of the matrix-product rate of the same machine and run;
// everything that is not a product should run near the speed of memory. Shapes are those of the
// reference model: 4096 tokens (batch 16, sequence 256), dim 256, 4 heads, 256 classes, 8 experts
// of hidden size 512 with top-2. How to read it: products print FLOP/s, to be compared with Gemm*
// of the same type; the rest prints bytes/s, to be compared with Copy. The argument is the number
// of threads. Budget: attention at least half the product rate, memory kernels at least half the
// copy rate.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "executor/kernels/adamw.h"
#include "executor/kernels/attention.h"
#include "executor/kernels/cross_entropy.h"
#include "executor/kernels/fused.h"
#include "executor/kernels/grouped_matmul.h"
#include "executor/kernels/matmul.h"
#include "executor/kernels/moe.h"
#include "executor/kernels/move.h"
#include "executor/kernels/norm.h"
#include "executor/kernels/reduce.h"
#include "executor/kernels/softmax.h"

namespace gangway {
namespace {

constexpr int64_t kTokens = 4096, kDim = 256;

// Small ordinary numbers, as in training.
struct Data {
  Data(DType dtype, int64_t n)
      : bytes(static_cast<size_t>(std::max<int64_t>(n, 0)) * size_of(dtype) + 64) {
    std::vector<float> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 2654435761u % 2001) / 1000 - 1;
    Parallel par(1);
    convert(par, DType::kF32, dtype, values.data(), data(), n);
  }
  void* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (64 - address % 64) % 64;
  }
  std::vector<std::byte> bytes;
};

void report_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] = benchmark::Counter(
      flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void gemm(benchmark::State& state, DType dtype, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  Parallel par(static_cast<int>(state.range(0)));
  const Matmul product({.a = dtype,
                        .b = dtype,
                        .c = dtype,
                        .m = m,
                        .n = n,
                        .k = k,
                        .transpose_a = ta,
                        .transpose_b = tb});
  Data a(dtype, m * k), b(dtype, k * n), c(dtype, m * n),
      scratch(DType::kF32, static_cast<int64_t>(product.scratch_bytes(par.threads())) / 4 + 16);
  for (auto _ : state) product.run(par, a.data(), b.data(), c.data(), scratch.data());
  report_flops(state, 2.0 * static_cast<double>(m * n * k));
}
void GemmForward(benchmark::State& state, DType dtype) {
  gemm(state, dtype, kTokens, 1024, kDim, false, false);
}
void GemmGradInput(benchmark::State& state, DType dtype) {
  gemm(state, dtype, kTokens, kDim, 1024, false, true);
}
void GemmGradWeight(benchmark::State& state, DType dtype) {
  gemm(state, dtype, kDim, 1024, kTokens, true, false);
}
void GemmSquare(benchmark::State& state, DType dtype) {
  gemm(state, dtype, kTokens, kDim, kDim, false, false);
}

// Queries, keys and values of the same rows: as three products, or as one of a weight that holds
// all three. Then the cotangent of the rows, as three products and two sums, as three that add up
// in one place, or as one; and those of the weights, as three products or as one.
void queries_keys_values(benchmark::State& state, int64_t dim, bool one) {
  Parallel par(static_cast<int>(state.range(0)));
  const Matmul product({.m = kTokens, .n = one ? 3 * dim : dim, .k = dim});
  Data x(DType::kF32, kTokens * dim), w(DType::kF32, 3 * dim * dim),
      y(DType::kF32, 3 * kTokens * dim),
      scratch(DType::kF32, static_cast<int64_t>(product.scratch_bytes(par.threads())) / 4 + 16);
  for (auto _ : state) {
    for (int64_t i = 0; i < (one ? 1 : 3); ++i)
      product.run(par, x.data(), static_cast<float*>(w.data()) + i * dim * dim,
                  static_cast<float*>(y.data()) + i * kTokens * dim, scratch.data());
  }
  report_flops(state, 6.0 * static_cast<double>(kTokens * dim * dim));
}
enum class Summed { kAfterwards, kInPlace, kInOneProduct };
void sum_of_products(benchmark::State& state, int64_t dim, Summed how) {
  Parallel par(static_cast<int>(state.range(0)));
  const bool in_place = how == Summed::kInPlace, one = how == Summed::kInOneProduct;
  const MatmulDesc desc{.m = kTokens, .n = dim, .k = one ? 3 * dim : dim, .transpose_b = true};
  MatmulDesc adding = desc;
  adding.accumulate = in_place;
  const Matmul first(desc), more(adding);
  Data dy(DType::kF32, 3 * kTokens * dim), w(DType::kF32, 3 * dim * dim),
      dx(DType::kF32, 3 * kTokens * dim),
      scratch(DType::kF32, static_cast<int64_t>(first.scratch_bytes(par.threads()) +
                                                more.scratch_bytes(par.threads())) /
                                   4 +
                               16);
  const auto part = [&](Data& of, int64_t index, int64_t elements) {
    return static_cast<float*>(of.data()) + index * elements;
  };
  for (auto _ : state) {
    for (int64_t i = 0; i < (one ? 1 : 3); ++i)
      (i == 0 ? first : more)
          .run(par, part(dy, i, kTokens * dim), part(w, i, dim * dim),
               part(dx, in_place ? 0 : i, kTokens * dim), scratch.data());
    if (how != Summed::kAfterwards) continue;
    float* to = part(dx, 0, 0);
    const float *b = part(dx, 1, kTokens * dim), *c = part(dx, 2, kTokens * dim);
    par.for_each_range(kTokens * dim, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = to[i] + b[i] + c[i];
    });
  }
  report_flops(state, 6.0 * static_cast<double>(kTokens * dim * dim));
}

void gradients_of_weights(benchmark::State& state, int64_t dim, bool one) {
  Parallel par(static_cast<int>(state.range(0)));
  const Matmul product({.m = dim, .n = one ? 3 * dim : dim, .k = kTokens, .transpose_a = true});
  Data x(DType::kF32, kTokens * dim), dy(DType::kF32, 3 * kTokens * dim),
      dw(DType::kF32, 3 * dim * dim),
      scratch(DType::kF32, static_cast<int64_t>(product.scratch_bytes(par.threads())) / 4 + 16);
  for (auto _ : state) {
    for (int64_t i = 0; i < (one ? 1 : 3); ++i)
      product.run(par, x.data(), static_cast<float*>(dy.data()) + i * kTokens * dim,
                  static_cast<float*>(dw.data()) + i * dim * dim, scratch.data());
  }
  report_flops(state, 6.0 * static_cast<double>(kTokens * dim * dim));
}

void grouped(benchmark::State& state, DType dtype, GroupedKind kind) {
  Parallel par(static_cast<int>(state.range(0)));
  const int64_t groups = 16, slots = 512, experts = 8, d = kDim, h = 512;
  const GroupedMatmul product({kind, dtype, dtype, dtype, groups, slots, experts, d, h});
  std::vector<int32_t> sizes;
  for (int64_t i = 0; i < groups; ++i) {
    for (int32_t e = 0; e < 8; ++e) sizes.push_back(64 + (e % 2 == 0 ? 9 : -9));
  }
  Data x(dtype, groups * slots * 512), w(dtype, groups * slots * 512),
      y(dtype, groups * slots * 512);
  Data scratch(DType::kF32, static_cast<int64_t>(product.scratch_bytes(par.threads())) / 4 + 16);
  for (auto _ : state) product.run(par, x.data(), w.data(), sizes.data(), y.data(), scratch.data());
  report_flops(state, 2.0 * static_cast<double>(groups * slots * d * h));
}

void attend(benchmark::State& state, DType dtype, bool backward) {
  Parallel par(static_cast<int>(state.range(0)));
  const AttentionShape s{.dtype = dtype,
                         .batch = 16,
                         .heads = 4,
                         .seq_q = 256,
                         .seq_k = 256,
                         .head_dim = 64,
                         .causal = true};
  const int64_t n = kTokens * kDim;
  Data q(dtype, n), k(dtype, n), v(dtype, n), out(dtype, n), lse(DType::kF32, 16 * 4 * 256),
      dout(dtype, n), dq(dtype, n), dk(dtype, n), dv(dtype, n);
  Data scratch(DType::kF32,
               static_cast<int64_t>(attention_grad_scratch_bytes(s, par.threads())) / 4 + 16);
  attention(par, s, q.data(), k.data(), v.data(), out.data(), lse.data(), scratch.data());
  const AttentionGrad grad{q.data(),    k.data(),  v.data(),  out.data(), lse.data(),
                           dout.data(), dq.data(), dk.data(), dv.data()};
  for (auto _ : state) {
    if (backward) {
      attention_grad(par, s, grad, scratch.data());
    } else {
      attention(par, s, q.data(), k.data(), v.data(), out.data(), lse.data(), scratch.data());
    }
  }
  // Half of the scores are visible; five products backward, two forward.
  report_flops(state, (backward ? 5 : 2) * 2.0 * 64 * 256 * 257 / 2 * 64);
}

// Memory-bound kernels: body(par) once, `bytes` moved.
template <class Body>
void measure(benchmark::State& state, int64_t bytes, const Body& body) {
  Parallel par(static_cast<int>(state.range(0)));
  for (auto _ : state) body(par);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
}

void Copy(benchmark::State& state) {
  const int64_t n = kTokens * 1024;
  Data x(DType::kF32, n), y(DType::kF32, n);
  measure(state, 8 * n,
          [&](Parallel& par) { convert(par, DType::kF32, DType::kF32, x.data(), y.data(), n); });
}

void Transpose(benchmark::State& state) {
  const int64_t n = kTokens * 1024;
  Data x(DType::kF32, n), y(DType::kF32, n);
  const StridedCopy copy = permute_copy(4, {kTokens, 1024}, {1, 0});
  measure(state, 8 * n, [&](Parallel& par) { strided_copy(par, copy, x.data(), y.data()); });
}

// gelu(x + bias), tanh form: eight ops on [4096, 1024].
void FusedGelu(benchmark::State& state, DType dtype) {
  const DType f = DType::kF32;
  auto constant = [&](double x) { return FusedInstruction{FusedOp::kConstant, f, {0, 0, 0}, x}; };
  const Fused chain({.inputs = {{dtype, FusedInput::kFull}, {dtype, FusedInput::kInner}},
                     .code = {constant(0.044715),
                              constant(0.7978845608),
                              constant(1),
                              constant(0.5),
                              {FusedOp::kAdd, f, {0, 1, 0}, 0},
                              {FusedOp::kMul, f, {6, 6, 0}, 0},
                              {FusedOp::kMul, f, {7, 6, 0}, 0},
                              {FusedOp::kMul, f, {8, 2, 0}, 0},
                              {FusedOp::kAdd, f, {9, 6, 0}, 0},
                              {FusedOp::kMul, f, {10, 3, 0}, 0},
                              {FusedOp::kTanh, f, {11, 0, 0}, 0},
                              {FusedOp::kAdd, f, {12, 4, 0}, 0},
                              {FusedOp::kMul, f, {13, 6, 0}, 0},
                              {FusedOp::kMul, f, {14, 5, 0}, 0}},
                     .outputs = {{15, dtype}}});
  const int64_t n = kTokens * 1024;
  Data x(dtype, n), bias(dtype, 1024), y(dtype, n);
  const void* const in[] = {x.data(), bias.data()};
  void* const out[] = {y.data()};
  measure(state, 2 * n * static_cast<int64_t>(size_of(dtype)),
          [&](Parallel& par) { chain.run(par, kTokens, 1024, in, out); });
}

void FusedAdd(benchmark::State& state, DType dtype) {
  const Fused chain({.inputs = {{dtype, FusedInput::kFull}, {dtype, FusedInput::kFull}},
                     .code = {{FusedOp::kAdd, dtype, {0, 1, 0}, 0}},
                     .outputs = {{2, dtype}}});
  const int64_t n = kTokens * 1024;
  Data x(dtype, n), z(dtype, n), y(dtype, n);
  const void* const in[] = {x.data(), z.data()};
  void* const out[] = {y.data()};
  measure(state, 3 * n * static_cast<int64_t>(size_of(dtype)),
          [&](Parallel& par) { chain.run(par, 1, n, in, out); });
}

void RmsNorm(benchmark::State& state, DType dtype) {
  const NormShape s{dtype, dtype, kTokens, kDim, 1e-5};
  Data x(dtype, kTokens * kDim), w(dtype, kDim), y(dtype, kTokens * kDim);
  measure(state, 2 * kTokens * kDim * static_cast<int64_t>(size_of(dtype)),
          [&](Parallel& par) { rms_norm(par, s, x.data(), w.data(), y.data()); });
}

void RmsNormGrad(benchmark::State& state, DType dtype) {
  const NormShape s{dtype, dtype, kTokens, kDim, 1e-5};
  Data x(dtype, kTokens * kDim), w(dtype, kDim), dy(dtype, kTokens * kDim),
      dx(dtype, kTokens * kDim), dw(dtype, kDim);
  Data scratch(DType::kF64, static_cast<int64_t>(norm_grad_scratch_bytes(s)) / 8 + 8);
  measure(state, 3 * kTokens * kDim * static_cast<int64_t>(size_of(dtype)), [&](Parallel& par) {
    rms_norm_grad(par, s, x.data(), w.data(), dy.data(), dx.data(), dw.data(), scratch.data());
  });
}

void Softmax(benchmark::State& state, DType dtype) {
  const int64_t n = kTokens * 256;
  Data x(dtype, n), y(dtype, n);
  measure(state, 2 * n * static_cast<int64_t>(size_of(dtype)),
          [&](Parallel& par) { softmax(par, dtype, kTokens, 256, x.data(), y.data()); });
}

void CrossEntropy(benchmark::State& state, DType dtype) {
  const int64_t n = kTokens * 256;
  Data x(dtype, n), y(dtype, n), labels(DType::kI32, kTokens), loss(DType::kF32, kTokens),
      lse(DType::kF32, kTokens);
  std::memset(labels.data(), 0, kTokens * 4);
  auto* label = static_cast<const int32_t*>(labels.data());
  measure(state, 3 * n * static_cast<int64_t>(size_of(dtype)), [&](Parallel& par) {
    cross_entropy(par, dtype, kTokens, 256, x.data(), label, loss.data(), lse.data());
    cross_entropy_grad(par, dtype, kTokens, 256, x.data(), label, lse.data(), loss.data(),
                       y.data());
  });
}

// Rows of a vocabulary, too many for the cache together.
template <bool kJoined>
void LossAndGradient(benchmark::State& state, DType dtype) {
  constexpr int64_t kRows = 256, kClasses = 50304;
  const int64_t n = kRows * kClasses;
  Data x(dtype, n), y(dtype, n), labels(DType::kI32, kRows), dloss(DType::kF32, kRows),
      loss(DType::kF32, kRows), lse(DType::kF32, kRows);
  std::memset(labels.data(), 0, kRows * 4);
  auto* label = static_cast<const int32_t*>(labels.data());
  measure(state, (kJoined ? 2 : 3) * n * static_cast<int64_t>(size_of(dtype)), [&](Parallel& par) {
    if constexpr (kJoined) {
      cross_entropy_and_grad(par, dtype, kRows, kClasses, x.data(), label, dloss.data(),
                             loss.data(), lse.data(), y.data());
    } else {
      cross_entropy(par, dtype, kRows, kClasses, x.data(), label, loss.data(), lse.data());
      cross_entropy_grad(par, dtype, kRows, kClasses, x.data(), label, lse.data(), dloss.data(),
                         y.data());
    }
  });
}
void LossThenGradient(benchmark::State& state, DType dtype) {
  LossAndGradient<false>(state, dtype);
}
void LossWithGradient(benchmark::State& state, DType dtype) { LossAndGradient<true>(state, dtype); }

void Adamw(benchmark::State& state) {
  const int64_t n = 1 << 22;
  Data p(DType::kF32, n), g(DType::kF32, n), m(DType::kF32, n), v(DType::kF32, n);
  std::memset(v.data(), 0, static_cast<size_t>(n) * 4);
  const AdamwTensors t{p.data(), g.data(), m.data(), v.data(), p.data(), m.data(), v.data()};
  measure(state, 28 * n,
          [&](Parallel& par) { adamw(par, DType::kF32, DType::kF32, n, {.lr = 1e-6}, t); });
}

void SumRows(benchmark::State& state) {
  const AxisShape s{1, kTokens, 1024};
  Data x(DType::kF32, kTokens * 1024), y(DType::kF32, 1024),
      scratch(DType::kF32,
              static_cast<int64_t>(reduce_scratch_bytes(ReduceOp::kSum, DType::kF32, s)) / 4 + 16);
  measure(state, 4 * kTokens * 1024, [&](Parallel& par) {
    reduce(par, ReduceOp::kSum, DType::kF32, s, x.data(), y.data(), scratch.data());
  });
}

void SumSquares(benchmark::State& state) {
  const int64_t n = 1 << 22;
  Data x(DType::kF32, n), y(DType::kF32, 1), scratch(DType::kF64, n / 65536 + 8);
  measure(state, 4 * n, [&](Parallel& par) {
    sum_squares(par, DType::kF32, x.data(), n, y.data(), scratch.data());
  });
}

void MoeDispatchAndCombine(benchmark::State& state) {
  const RouteShape r{16, 256, 2, 8, 0};
  const MoeShape s{DType::kF32, DType::kF32, 16, 256, 2, 512, kDim};
  std::vector<int32_t> expert(static_cast<size_t>(2 * kTokens)), slot_token(expert),
      token_slot(expert), sizes(128);
  for (size_t i = 0; i < expert.size(); ++i)
    expert[i] = static_cast<int32_t>(i * 2654435761u >> 7) & 7;
  Data x(DType::kF32, kTokens * kDim), rows(DType::kF32, 2 * kTokens * kDim),
      gate(DType::kF32, 2 * kTokens);
  measure(state, 4 * 6 * kTokens * kDim, [&](Parallel& par) {
    moe_route(par, r, expert.data(), {slot_token.data(), token_slot.data(), sizes.data()});
    moe_dispatch(par, s, x.data(), slot_token.data(), rows.data());
    moe_combine(par, s, rows.data(), gate.data(), token_slot.data(), x.data());
  });
}

void ScatterAdd(benchmark::State& state) {
  const RowsShape s{256, kDim, kTokens};
  std::vector<int32_t> index(kTokens);
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int32_t>(i * i % 97);
  Data x(DType::kF32, kTokens * kDim), y(DType::kF32, 256 * kDim);
  measure(state, 4 * kTokens * kDim, [&](Parallel& par) {
    scatter_add_rows(par, DType::kF32, s, index.data(), x.data(), y.data(), nullptr);
  });
}

#define GW_BENCH(...) \
  BENCHMARK_CAPTURE(__VA_ARGS__)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond)
#define GW_BENCH_TYPES(name)        \
  GW_BENCH(name, f32, DType::kF32); \
  GW_BENCH(name, bf16, DType::kBF16)
GW_BENCH_TYPES(GemmForward);
GW_BENCH_TYPES(GemmGradInput);
GW_BENCH_TYPES(GemmGradWeight);
GW_BENCH_TYPES(GemmSquare);
GW_BENCH(GemmForward, f64, DType::kF64);
GW_BENCH(grouped, forward_f32, DType::kF32, GroupedKind::kForward);
GW_BENCH(grouped, forward_bf16, DType::kBF16, GroupedKind::kForward);
GW_BENCH(grouped, grad_input_f32, DType::kF32, GroupedKind::kGradInput);
GW_BENCH(grouped, grad_input_bf16, DType::kBF16, GroupedKind::kGradInput);
GW_BENCH(grouped, grad_weight_f32, DType::kF32, GroupedKind::kGradWeight);
GW_BENCH(grouped, grad_weight_bf16, DType::kBF16, GroupedKind::kGradWeight);
GW_BENCH(attend, forward_f32, DType::kF32, false);
GW_BENCH(attend, forward_bf16, DType::kBF16, false);
GW_BENCH(attend, backward_f32, DType::kF32, true);
GW_BENCH(attend, backward_bf16, DType::kBF16, true);
GW_BENCH(queries_keys_values, three_128, 128, false);
GW_BENCH(queries_keys_values, one_128, 128, true);
GW_BENCH(queries_keys_values, three_256, 256, false);
GW_BENCH(queries_keys_values, one_256, 256, true);
GW_BENCH(queries_keys_values, three_768, 768, false);
GW_BENCH(queries_keys_values, one_768, 768, true);
GW_BENCH(sum_of_products, added_128, 128, Summed::kAfterwards);
GW_BENCH(sum_of_products, in_place_128, 128, Summed::kInPlace);
GW_BENCH(sum_of_products, one_128, 128, Summed::kInOneProduct);
GW_BENCH(sum_of_products, added_256, 256, Summed::kAfterwards);
GW_BENCH(sum_of_products, in_place_256, 256, Summed::kInPlace);
GW_BENCH(sum_of_products, one_256, 256, Summed::kInOneProduct);
GW_BENCH(sum_of_products, added_768, 768, Summed::kAfterwards);
GW_BENCH(sum_of_products, in_place_768, 768, Summed::kInPlace);
GW_BENCH(sum_of_products, one_768, 768, Summed::kInOneProduct);
GW_BENCH(gradients_of_weights, three_128, 128, false);
GW_BENCH(gradients_of_weights, one_128, 128, true);
GW_BENCH(gradients_of_weights, three_256, 256, false);
GW_BENCH(gradients_of_weights, one_256, 256, true);
GW_BENCH(gradients_of_weights, three_768, 768, false);
GW_BENCH(gradients_of_weights, one_768, 768, true);
BENCHMARK(Copy)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(Transpose)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
GW_BENCH_TYPES(FusedAdd);
GW_BENCH_TYPES(FusedGelu);
GW_BENCH_TYPES(RmsNorm);
GW_BENCH_TYPES(RmsNormGrad);
GW_BENCH_TYPES(Softmax);
GW_BENCH_TYPES(CrossEntropy);
GW_BENCH_TYPES(LossThenGradient);
GW_BENCH_TYPES(LossWithGradient);
BENCHMARK(Adamw)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(SumRows)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(SumSquares)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(MoeDispatchAndCombine)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(ScatterAdd)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gangway
