#include "executor/kernels/norm.h"

#include <algorithm>

#include "executor/kernels/simd/simd.h"

namespace gangway {
namespace {

// Limit on the number of chunks of rows. Each chunk sums the gradients of the parameters by itself.
constexpr int64_t kChunksMax = 32;

int64_t chunk_count(int64_t rows) { return std::clamp<int64_t>(rows / 16, 1, kChunksMax); }

simd::NormRows rows_of(const NormShape& s, bool centered, const void* x, const void* weight,
                       const void* bias, const void* dy, void* y) {
  return {s.x, s.param, centered, s.dim, s.eps, x, weight, bias, dy, y};
}

void forward(Parallel& par, const NormShape& shape, const simd::NormRows& args) {
  if (shape.dim == 0) return;
  par.for_each_range(shape.rows, 8,
                     [&](int64_t begin, int64_t end) { par.simd().norm_rows(args, begin, end); });
}

// sums[chunks, dim] -> out[dim] of the parameter's dtype, chunks in order.
template <class T>
void add_chunks(Parallel& par, const NormShape& shape, T* sums, int64_t chunks, void* out) {
  for (int64_t c = 1; c < chunks; ++c) {
    for (int64_t i = 0; i < shape.dim; ++i) sums[i] += sums[c * shape.dim + i];
  }
  if (shape.param == DType::kBF16) {
    par.simd().narrow_bf16(reinterpret_cast<const float*>(sums), out, shape.dim);
  } else if (shape.param == DType::kF32) {
    std::transform(sums, sums + shape.dim, static_cast<float*>(out),
                   [](T x) { return static_cast<float>(x); });
  } else {
    std::copy(sums, sums + shape.dim, static_cast<double*>(out));
  }
}

template <class T>
void backward(Parallel& par, const NormShape& shape, const simd::NormRows& args, void* dweight,
              void* dbias, T* sums) {
  const int64_t chunks = chunk_count(shape.rows);
  T* const weight_sums = dweight == nullptr ? nullptr : sums;
  T* const bias_sums = dbias == nullptr ? nullptr : sums + chunks * shape.dim;
  par.for_each_chunk(chunks, [&](int64_t c) {
    auto own = [&](T* all) { return all == nullptr ? nullptr : all + c * shape.dim; };
    if (weight_sums != nullptr) std::fill_n(own(weight_sums), shape.dim, T{0});
    if (bias_sums != nullptr) std::fill_n(own(bias_sums), shape.dim, T{0});
    par.simd().norm_grad_rows(args, shape.rows * c / chunks, shape.rows * (c + 1) / chunks,
                              own(weight_sums), own(bias_sums));
  });
  if (weight_sums != nullptr) add_chunks(par, shape, weight_sums, chunks, dweight);
  if (bias_sums != nullptr) add_chunks(par, shape, bias_sums, chunks, dbias);
}

void backward(Parallel& par, const NormShape& shape, const simd::NormRows& args, void* dweight,
              void* dbias, void* scratch) {
  if (shape.dim == 0) return;
  if (shape.x == DType::kF64) {
    backward(par, shape, args, dweight, dbias, static_cast<double*>(scratch));
  } else {
    backward(par, shape, args, dweight, dbias, static_cast<float*>(scratch));
  }
}

}  // namespace

void rms_norm(Parallel& par, const NormShape& shape, const void* x, const void* weight, void* y) {
  forward(par, shape, rows_of(shape, false, x, weight, nullptr, nullptr, y));
}

void layer_norm(Parallel& par, const NormShape& shape, const void* x, const void* weight,
                const void* bias, void* y) {
  forward(par, shape, rows_of(shape, true, x, weight, bias, nullptr, y));
}

size_t norm_grad_scratch_bytes(const NormShape& shape) {
  const size_t element = shape.x == DType::kF64 ? 8 : 4;
  return 2 * static_cast<size_t>(chunk_count(shape.rows) * shape.dim) * element;
}

void rms_norm_grad(Parallel& par, const NormShape& shape, const void* x, const void* weight,
                   const void* dy, void* dx, void* dweight, void* scratch) {
  backward(par, shape, rows_of(shape, false, x, weight, nullptr, dy, dx), dweight, nullptr,
           scratch);
}

void layer_norm_grad(Parallel& par, const NormShape& shape, const void* x, const void* weight,
                     const void* dy, void* dx, void* dweight, void* dbias, void* scratch) {
  backward(par, shape, rows_of(shape, true, x, weight, nullptr, dy, dx), dweight, dbias, scratch);
}

}  // namespace gangway
