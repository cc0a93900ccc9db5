// Products of experts in bf16 on the matrix unit.
#include "executor/devices/cuda/kernels/tiled/grouped_block.h"

namespace gangway::cuda {

struct Bf16Unit {
  using Element = bf16;
  static constexpr int32_t kInVector = 8;

  GW_DEVICE static void set(Vector& to, int32_t i, bf16 x) {
    to.words[i / 2] |= static_cast<uint32_t>(x.bits) << 16 * (i % 2);
  }
  GW_DEVICE static const Vector& rounded(const Vector& elements) { return elements; }
  template <int32_t kPitch>
  GW_DEVICE static void load_transposed(Fragments& to, Shared<const bf16> panel, int32_t outer,
                                        int32_t inner, bool left) {
    const int32_t lane = thread() % 32, high = lane / 16 * 8, low = lane / 8 % 2 * 8;
    outer += left ? low : high;
    inner += (left ? high : low) + lane % 8;
    gangway::cuda::load_transposed(to, panel + (inner * kPitch + outer));
  }
  GW_DEVICE static void multiply(float (&sum)[4], const Fragments& a, uint32_t b_left,
                                 uint32_t b_right) {
    multiply_add(sum, a, b_left, b_right);
  }
};

GW_KERNEL_TABLE(grouped_bf16,
                GW_INSTANCE("grouped_rows_bf16_bf16", grouped_rows_on_unit<Bf16Unit, bf16>),
                GW_INSTANCE("grouped_rows_bf16_f32", grouped_rows_on_unit<Bf16Unit, float>),
                GW_INSTANCE("grouped_weight_bf16_bf16", grouped_weight_on_unit<Bf16Unit, bf16>),
                GW_INSTANCE("grouped_weight_bf16_f32", grouped_weight_on_unit<Bf16Unit, float>));

}  // namespace gangway::cuda
