// Products of experts in f32 on the matrix unit, if a program lets operands be rounded to TF32.
#include "executor/devices/cuda/kernels/tiled/grouped_block.h"

namespace gangway::cuda {

struct Tf32Unit {
  using Element = float;
  static constexpr int32_t kInVector = 4;

  GW_DEVICE static void set(Vector& to, int32_t i, float x) { to.words[i] = bits_of_float(x); }
  // Rounds on the way into shared memory, once for all warps that read the vector there.
  GW_DEVICE static Vector rounded(const Vector& elements) {
    Vector made;
    GW_UNROLL for (int32_t i = 0; i < kInVector; ++i) {
      made.words[i] = round_to_tf32(float_of_bits(elements.words[i]));
    }
    return made;
  }
  // Reads word by word, since ldmatrix transposes only elements of 16 bits.
  template <int32_t kPitch>
  GW_DEVICE static void load_transposed(Fragments& to, Shared<const float> panel, int32_t outer,
                                        int32_t inner, bool left) {
    const Shared<const float> of_lane =
        panel + ((inner + thread() % 4) * kPitch + outer + thread() % 32 / 4);
    GW_UNROLL for (int32_t f = 0; f < 4; ++f) {
      const int32_t low = f % 2, high = f / 2;
      const float x = of_lane[(left ? high : low) * 4 * kPitch + (left ? low : high) * 8];
      to[f] = bits_of_float(x);
    }
  }
  GW_DEVICE static void multiply(float (&sum)[4], const Fragments& a, uint32_t b_left,
                                 uint32_t b_right) {
    multiply_add_tf32(sum, a, b_left, b_right);
  }
};

GW_KERNEL_TABLE(grouped_tf32,
                GW_INSTANCE("grouped_rows_tf32_f32", grouped_rows_on_unit<Tf32Unit, float>),
                GW_INSTANCE("grouped_weight_tf32_f32", grouped_weight_on_unit<Tf32Unit, float>));

}  // namespace gangway::cuda
