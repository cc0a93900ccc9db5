// The table of functions that are compiled once for each instruction set, and their plain
// arguments.
//
// Each works serially on the range or unit that it is given; splitting work over threads, checks
// and scratch are the business of the kernel that calls it (softmax.cc, norm.cc, ...). The bodies
// are simd/*.inl; simd_<isa>.cc compiles all of them in an unnamed namespace, so that no symbol of
// one instruction set can replace that of another at link time. For the same reason this header
// holds plain data only: no inline function, no standard container by value.
// Threads: any.
#pragma once

#include <cstdint>

#include "executor/kernels/adamw.h"
#include "executor/kernels/isa.h"
#include "executor/kernels/reduce.h"
#include "ir/types/dtype.h"

namespace gangway::simd {

struct FusedPlan;
struct FusedSpace;

struct CrossEntropyRows {
  DType dtype;
  int64_t classes;
  const void* logits;
  const int32_t* labels;
  void *loss, *log_sum;
};

struct CrossEntropyGradRows {
  DType dtype;
  int64_t classes;
  const void* logits;
  const int32_t* labels;
  const void *log_sum, *dloss;
  void* dlogits;
};

struct NormRows {
  DType dtype, param;
  bool centered;  // Layer norm; else RMS norm.
  int64_t dim;
  double eps;
  const void *x, *weight, *bias, *dy;
  void* y;  // The result: y, or dx.
};

// Strided c[m, n] (+)= a[m, k] x b[k, n] in f64.
struct DoubleGemm {
  const double* a;
  int64_t a_row, a_col;
  const double* b;
  int64_t b_row, b_col;
  double* c;
  int64_t c_row;
  int64_t n, k;
  bool accumulate;
};

// Columns of a right-hand side that are packed together, and rows that meet them in one call: see
// panel.inl.
constexpr int64_t kPanelCols = 64, kPanelRows = 96;

// x[rows, cols], cols <= kPanelCols, element (k, j) at x[k * row + j * col], where `row` or `col`
// is 1 -> panel of the same dtype, zeros behind `cols`.
struct PanelPack {
  DType dtype;
  const void* x;
  int64_t row, col, rows, cols;
  void* panel;
  int64_t next;
};

// c[m, n] (+)= a[m, k] x panel, m <= kPanelRows, n <= kPanelCols. Steps of k and strides of a are
// elements, of bf16 pairs of them. Out: `in`, or f32 for bf16. Only whole vectors of the compute
// type can be accumulated: then n is a multiple of 16.
struct PanelProduct {
  DType in, out;
  bool native;  // The machine multiplies bf16.
  const void* a;
  int64_t a_row, a_col;
  const void* panel;
  int64_t m, n, k;
  void* c;
  int64_t ldc;
  bool accumulate;
};

constexpr int64_t kAttentionBlockQ = 48, kAttentionBlockK = 512;
// Rows in scratch are whole vectors of every instruction set.
constexpr int64_t kAttentionPad = 16;

// One head; pointers are at its first element, strides go from one position to the next.
struct AttentionHead {
  DType dtype;
  bool causal, native;  // native: the machine multiplies bf16.
  int64_t seq_q, seq_k, head_dim;
  int64_t lead;  // causal: query i sees keys j <= i + lead.
  // For the gradient: lse may cover exactly these keys; false where it certainly covers others too.
  bool whole_rows;
  double scale;
  int64_t stride_q, stride_k, stride_v, stride_out;
  const void *q, *k, *v;
  void *out, *lse;
  const void* dout;
  void *dq, *dk, *dv;
  void* scratch;
};

struct Table {
  void (*fused_units)(const FusedPlan& plan, const FusedSpace& space, const void* const* inputs,
                      void* const* outputs, int64_t begin, int64_t end);
  void (*softmax_rows)(DType dtype, const void* x, void* y, int64_t begin, int64_t end,
                       int64_t cols);
  void (*softmax_grad_rows)(DType dtype, const void* y, const void* dy, void* dx, int64_t begin,
                            int64_t end, int64_t cols);
  void (*cross_entropy_rows)(const CrossEntropyRows& args, int64_t begin, int64_t end);
  void (*cross_entropy_grad_rows)(const CrossEntropyGradRows& args, int64_t begin, int64_t end);
  void (*cross_entropy_and_grad_rows)(const CrossEntropyRows& loss,
                                      const CrossEntropyGradRows& grad, int64_t begin, int64_t end);
  void (*norm_rows)(const NormRows& args, int64_t begin, int64_t end);
  void (*norm_grad_rows)(const NormRows& args, int64_t begin, int64_t end, void* dweight_sum,
                         void* dbias_sum);
  void (*reduce_piece)(ReduceOp op, DType dtype, const void* x, int64_t count, int64_t inner,
                       void* out);
  double (*sum_squares_piece)(DType dtype, const void* x, int64_t n);
  bool (*finite_piece)(DType dtype, const void* x, int64_t n);
  void (*adamw_range)(DType dtype, DType grad, const AdamwRates& scalars,
                      const AdamwTensors& tensors, int64_t begin, int64_t end);
  void (*weighted_rows)(DType dtype, const void* const* rows, const double* gates, int64_t count,
                        int64_t dim, void* out);
  double (*dot_rows)(DType dtype, const void* x, const void* y, int64_t dim);
  void (*add_row)(DType dtype, const void* row, int64_t dim, void* sum);
  void (*widen_bf16)(const void* x, float* y, int64_t n);
  void (*narrow_bf16)(const float* x, void* y, int64_t n);
  void (*double_gemm_rows)(const DoubleGemm& gemm, int64_t begin, int64_t end);
  void (*pack_panels)(const PanelPack& pack);
  void (*panel_product)(const PanelProduct& product);
  void (*attention_head)(const AttentionHead& head);
  void (*attention_grad_head)(const AttentionHead& head);
  void (*attention_decode_head)(const AttentionHead& head);
};

const Table& table(KernelIsa isa);

extern const Table kTableBase, kTableAvx2, kTableAvx512;

}  // namespace gangway::simd
