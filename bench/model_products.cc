#include "bench/model_products.h"

#include <algorithm>
#include <chrono>

#include "executor/kernels/matmul.h"
#include "executor/kernels/move.h"

namespace gangway::bench {
namespace {

double now_s() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// Returns a tensor of small ordinary numbers on a 64-byte boundary.
class Tensor {
 public:
  Tensor(Parallel& par, DType dtype, int64_t elements)
      : bytes_(static_cast<size_t>(elements) * size_of(dtype) + 64) {
    std::vector<float> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 2654435761u % 2001) / 1000 - 1;
    convert(par, DType::kF32, dtype, values.data(), data(), elements);
  }
  void* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<std::byte> bytes_;
};

// Returns the seconds of one product, after a first one that is not timed.
double seconds(Parallel& par, const MatmulDesc& desc, int rounds) {
  const Matmul product(desc);
  Tensor a(par, desc.a, desc.batch * desc.m * desc.k), b(par, desc.b, desc.batch * desc.k * desc.n),
      c(par, desc.c, desc.batch * desc.m * desc.n);
  Tensor scratch(par, DType::kF32,
                 static_cast<int64_t>(product.scratch_bytes(par.threads())) / 4 + 16);
  double begin = 0;
  for (int round = -1; round < rounds; ++round) {
    if (round == 0) begin = now_s();
    product.run(par, a.data(), b.data(), c.data(), scratch.data());
  }
  return (now_s() - begin) / rounds;
}

}  // namespace

std::vector<Product> weight_products(const programs::TransformerConfig& model, int64_t batch) {
  const int64_t tokens = batch * model.seq, dim = model.dim;
  const int64_t experts = std::max<int64_t>(model.moe.experts, 1);
  const int64_t rows = model.moe.experts > 0 ? tokens * model.moe.top_k / experts : tokens;
  std::vector<Product> products = {
      {tokens, dim, dim, 4 * model.layers},                                      // q, k, v, o
      {rows, model.hidden, dim, (model.gated ? 2 : 1) * model.layers, experts},  // up, gate
      {rows, dim, model.hidden, model.layers, experts},                          // down
      {tokens, model.vocab, dim, 1}};                                            // logits
  if (model.moe.experts > 0) products.push_back({tokens, model.moe.experts, dim, model.layers});
  return products;
}

double step_flops(const programs::TransformerConfig& model, int64_t batch) {
  double flops =
      6.0 * static_cast<double>(model.layers * model.seq * model.dim * batch * model.seq);
  for (const Product& p : weight_products(model, batch))
    flops += 6.0 * static_cast<double>(p.items * p.m * p.n * p.k * p.count);
  return flops;
}

double product_rate(const programs::TransformerConfig& model, int64_t batch, int threads,
                    int rounds) {
  Parallel par(threads);
  const DType type = model.compute;
  double flops = 0, time_s = 0;
  for (const Product& p : weight_products(model, batch)) {
    if (p.n < 64) continue;  // The router: too small to tell anything about a machine.
    const MatmulDesc forward{
        .a = type, .b = type, .c = type, .batch = p.items, .m = p.m, .n = p.n, .k = p.k};
    MatmulDesc input = forward, weight = forward;
    input.n = p.k, input.k = p.n, input.transpose_b = true;
    weight.m = p.k, weight.k = p.m, weight.transpose_a = true;
    for (const MatmulDesc& desc : {forward, input, weight})
      time_s += static_cast<double>(p.count) * seconds(par, desc, rounds);
    flops += 6.0 * static_cast<double>(p.items * p.m * p.n * p.k * p.count);
  }
  return flops / time_s;
}

}  // namespace gangway::bench
