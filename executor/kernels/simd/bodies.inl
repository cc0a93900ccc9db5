// All bodies, for one instruction set: included inside an unnamed namespace, after vec_<isa>.inl.
template <ReduceOp op>
struct OpTag {
  static constexpr ReduceOp value = op;
};

#include "executor/kernels/simd/lane.inl"
#include "executor/kernels/simd/math.inl"
// An op's step is picked by the class of its operands first: each switch sees only the ops of its
// class.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"
#include "executor/kernels/simd/fused.inl"
#pragma GCC diagnostic pop
// Each after those that it uses.
// clang-format off
#include "executor/kernels/simd/rows.inl"
#include "executor/kernels/simd/norm.inl"
#include "executor/kernels/simd/reduce.inl"
#include "executor/kernels/simd/update.inl"
#include "executor/kernels/simd/gemm.inl"
#include "executor/kernels/simd/panel.inl"
#include "executor/kernels/simd/attention.inl"
#include "executor/kernels/simd/attention_pairs.inl"
// clang-format on

constexpr Table kTable = {
    .fused_units = fused_units,
    .softmax_rows = softmax_rows,
    .softmax_grad_rows = softmax_grad_rows,
    .cross_entropy_rows = cross_entropy_rows,
    .cross_entropy_grad_rows = cross_entropy_grad_rows,
    .cross_entropy_and_grad_rows = cross_entropy_and_grad_rows,
    .norm_rows = norm_rows,
    .norm_grad_rows = norm_grad_rows,
    .reduce_piece = reduce_piece,
    .sum_squares_piece = sum_squares_piece,
    .finite_piece = finite_piece,
    .adamw_range = adamw_range,
    .weighted_rows = weighted_rows,
    .dot_rows = dot_rows,
    .add_row = add_row,
    .widen_bf16 = widen_bf16,
    .narrow_bf16 = narrow_bf16,
    .double_gemm_rows = double_gemm_rows,
    .pack_panels = pack_panels,
    .panel_product = panel_product,
    .attention_head = attention_head,
    .attention_grad_head = attention_grad_head,
    .attention_decode_head = attention_decode_head,
};
