// Counter-based random tensors: element i depends on (key, i) alone; see executor/kernels/random.h.
#include "executor/devices/cuda/kernels/math.h"
#include "executor/devices/cuda/kernels/strided_view.h"

namespace gangway::cuda {

struct Words {
  uint32_t at[4];
};

// Philox4x32-10.
GW_DEVICE Words philox(uint32_t key0, uint32_t key1, uint64_t index) {
  Words c = {{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c.at[0];
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c.at[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.at[1] ^ key0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.at[3] ^ key1, static_cast<uint32_t>(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

GW_DEVICE float unit_float(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}
GW_DEVICE double unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * (1.0 / 9007199254740992.0);
}

template <class T>
struct Uniform {
  static constexpr int64_t kPerBlock = 4;
  static GW_DEVICE double of(const Words& words, int64_t i) { return unit_float(words.at[i]); }
};
template <>
struct Uniform<double> {
  static constexpr int64_t kPerBlock = 2;
  static GW_DEVICE double of(const Words& words, int64_t i) {
    return unit_double(words.at[2 * i], words.at[2 * i + 1]);
  }
};

template <class T>
GW_DEVICE T rounded_down(double x) {
  return static_cast<T>(x);
}
template <>
GW_DEVICE bf16 rounded_down<bf16>(double x) {
  return {static_cast<uint16_t>(bits_of_float(static_cast<float>(x)) >> 16)};
}

// The part that is drawn: where its elements lie in the whole tensor, by the strides of the source.
GW_DEVICE int64_t elements_of(const StridedView& part) {
  int64_t n = 1;
  for (int32_t d = 0; d < part.rank; ++d) n *= part.sizes[d];
  return n;
}
GW_DEVICE int64_t number_of(const StridedView& part, int64_t i) {
  if (part.rank == 1) return i;
  int64_t at = 0;
  for (int32_t d = part.rank - 1; d >= 0; --d) {
    at += i % part.sizes[d] * part.source[d];
    i /= part.sizes[d];
  }
  return at;
}

template <class T>
GW_DEVICE void uniform(Global<const uint32_t> key, Global<T> out, int64_t first,
                       const StridedView& part) {
  constexpr int64_t kPer = Uniform<T>::kPerBlock;
  const uint32_t key0 = key[0], key1 = key[1];
  const int64_t n = elements_of(part);
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const int64_t at = first + number_of(part, i);
    const Words words = philox(key0, key1, static_cast<uint64_t>(at / kPer));
    out[i] = rounded_down<T>(Uniform<T>::of(words, at % kPer));
  }
}

template <class T>
GW_DEVICE void normal(Global<const uint32_t> key, Global<T> out, int64_t first,
                      const StridedView& part) {
  constexpr int64_t kPer = Uniform<T>::kPerBlock;
  const uint32_t key0 = key[0], key1 = key[1];
  const int64_t n = elements_of(part);
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const int64_t at = first + number_of(part, i);
    const Words words = philox(key0, key1, static_cast<uint64_t>(at / kPer));
    const int64_t pair = at % kPer / 2 * 2;
    const double radius = sqrt(-2.0 * log1p(-Uniform<T>::of(words, pair)));
    const double angle = 6.283185307179586476925 * Uniform<T>::of(words, pair + 1);
    const double x = radius * (at % 2 == 0 ? cos(angle) : sin(angle));
    out[i] = narrow<T>(static_cast<WideOf<T>>(x));
  }
}

#define GW_OF_TYPE(of, type)                                                               \
  GW_KERNEL void uniform_##of(Global<const uint32_t> key, Global<type> out, int64_t first, \
                              StridedView part) {                                          \
    uniform(key, out, first, part);                                                        \
  }                                                                                        \
  GW_KERNEL void normal_##of(Global<const uint32_t> key, Global<type> out, int64_t first,  \
                             StridedView part) {                                           \
    normal(key, out, first, part);                                                         \
  }
GW_OF_TYPE(bf16, bf16)
GW_OF_TYPE(f32, float)
GW_OF_TYPE(f64, double)
#undef GW_OF_TYPE

GW_KERNEL_TABLE(random, GW_ENTRY(uniform_bf16), GW_ENTRY(uniform_f32), GW_ENTRY(uniform_f64),
                GW_ENTRY(normal_bf16), GW_ENTRY(normal_f32), GW_ENTRY(normal_f64));

}  // namespace gangway::cuda
