#include "executor/kernels/norm.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway::norm_test {
namespace {

using namespace test;

struct Case {
  DType x, param;
  int64_t rows, dim;
  bool centered, weighted;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType x : kFloats) {
    for (auto [rows, dim] :
         {std::array<int64_t, 2>{1, 1}, {3, 5}, {17, 16}, {70, 37}, {200, 256}, {0, 8}}) {
      for (bool centered : {false, true}) {
        all.push_back({x, x, rows, dim, centered, true});
        all.push_back({x, x, rows, dim, centered, false});
        if (x == DType::kBF16) all.push_back({x, DType::kF32, rows, dim, centered, true});
      }
    }
  }
  return all;
}

constexpr double kEps = 1e-3;

struct Reference {
  std::vector<double> y, dx, dweight, dbias;
};

Reference reference(const Case& c, const Buffer& x, const Buffer& weight, const Buffer& bias,
                    const Buffer& dy) {
  Reference out;
  out.dweight.assign(static_cast<size_t>(c.dim), 0);
  out.dbias = out.dweight;
  const auto n = static_cast<double>(c.dim);
  auto w = [&](int64_t i) { return c.weighted ? weight.get(i) : 1; };
  for (int64_t r = 0; r < c.rows; ++r) {
    auto at = [&](const Buffer& b, int64_t i) { return b.get(r * c.dim + i); };
    double mean = 0, var = 0, along = 0, total = 0;
    for (int64_t i = 0; i < c.dim && c.centered; ++i) mean += at(x, i) / n;
    for (int64_t i = 0; i < c.dim; ++i) var += (at(x, i) - mean) * (at(x, i) - mean) / n;
    const double scale = 1 / std::sqrt(var + kEps);
    auto hat = [&](int64_t i) { return (at(x, i) - mean) * scale; };
    for (int64_t i = 0; i < c.dim; ++i) {
      out.y.push_back(hat(i) * w(i) + (c.weighted && c.centered ? bias.get(i) : 0));
      along += at(dy, i) * w(i) * hat(i) / n;
      total += c.centered ? at(dy, i) * w(i) / n : 0;
      out.dweight[static_cast<size_t>(i)] += at(dy, i) * hat(i);
      out.dbias[static_cast<size_t>(i)] += at(dy, i);
    }
    for (int64_t i = 0; i < c.dim; ++i)
      out.dx.push_back((at(dy, i) * w(i) - total - hat(i) * along) * scale);
  }
  return out;
}

void check(const Case& c, std::mt19937& rng) {
  const Buffer x(c.x, randoms(rng, c.x, c.rows * c.dim, -2, 3)),
      dy(c.x, randoms(rng, c.x, c.rows * c.dim));
  const Buffer weight(c.param, randoms(rng, c.param, c.dim, 0.5, 2)),
      bias(c.param, randoms(rng, c.param, c.dim));
  const Reference want = reference(c, x, weight, bias, dy);
  const NormShape shape{c.x, c.param, c.rows, c.dim, kEps};
  const void* w = c.weighted ? weight.data() : nullptr;
  const void* b = c.weighted ? bias.data() : nullptr;
  check_everywhere(
      cat(c.rows, "x", c.dim, " ", to_string(c.x), c.centered ? " layer" : " rms"),
      [&](Parallel& par) {
        Buffer y(c.x, c.rows * c.dim), dx(c.x, c.rows * c.dim), dweight(c.param, c.dim),
            dbias(c.param, c.dim);
        Buffer scratch = scratch_of(norm_grad_scratch_bytes(shape));
        if (c.centered) {
          layer_norm(par, shape, x.data(), w, b, y.data());
          layer_norm_grad(par, shape, x.data(), w, dy.data(), dx.data(), dweight.data(),
                          dbias.data(), scratch.data());
          return outputs(std::move(y), std::move(dx), std::move(dweight), std::move(dbias));
        }
        rms_norm(par, shape, x.data(), w, y.data());
        rms_norm_grad(par, shape, x.data(), w, dy.data(), dx.data(), dweight.data(),
                      scratch.data());
        return outputs(std::move(y), std::move(dx), std::move(dweight));
      },
      c.centered ? std::vector<Expected>{{want.y, 16, 1},
                                         {want.dx, 40, 1},
                                         {want.dweight, 40, 1},
                                         {want.dbias, 40, 1}}
                 : std::vector<Expected>{{want.y, 16, 1}, {want.dx, 40, 1}, {want.dweight, 40, 1}});
}

TEST(Norm, RmsAndLayerNormAndTheirGradientsEqualTheDefinition) {
  std::mt19937 rng = seeded();
  for (const Case& c : cases()) check(c, rng);
}

TEST(Norm, GradientsOfParametersMayBeLeftOut) {
  std::mt19937 rng = seeded();
  const NormShape shape{DType::kF32, DType::kF32, 20, 24, kEps};
  const Buffer x(DType::kF32, randoms(rng, DType::kF32, 480)),
      dy(DType::kF32, randoms(rng, DType::kF32, 480));
  const Reference want = reference({DType::kF32, DType::kF32, 20, 24, true, false}, x, x, x, dy);
  check_everywhere("dx alone, over dy",
                   [&](Parallel& par) {
                     Buffer dx(DType::kF32, dy.values());
                     Buffer scratch = scratch_of(norm_grad_scratch_bytes(shape));
                     layer_norm_grad(par, shape, x.data(), nullptr, dx.data(), dx.data(), nullptr,
                                     nullptr, scratch.data());
                     return outputs(std::move(dx));
                   },
                   {{want.dx, 40, 1}});
}

}  // namespace
}  // namespace gangway::norm_test
