// cuDNN's attention without a GPU: its graphs are computed number by number, and cuDNN makes plans
// of them, to the compiled kernel, for cards that the machine does not have.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "executor/devices/cuda/module/cudnn_attention.h"
#include "executor/devices/cuda/module/cudnn_graph.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "tests/cuda_module/evaluated_graph.h"
#include "tests/support/places.h"

namespace gangway::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// ---- The meaning of the graphs ----

struct Numbers {
  explicit Numbers(int64_t n) : wide(static_cast<size_t>(n)), single(wide.size()) {}
  void randomise(Rng& rng) {
    for (size_t i = 0; i < wide.size(); ++i)
      wide[i] = static_cast<double>(single[i] = static_cast<float>(rng.uniform()) - 0.5f);
  }
  void expect_equal(const char* name) const {
    for (size_t i = 0; i < wide.size(); ++i)
      ASSERT_NEAR(wide[i], static_cast<double>(single[i]), 1e-5) << name << " " << i;
  }
  std::vector<double> wide;   // The graph's numbers.
  std::vector<float> single;  // The CPU kernels' numbers.
};

void expect_graphs_mean(AttentionShape s, GradientSums sums) {
  s.dtype = DType::kF32;  // The graphs' meaning has no rounding.
  Rng rng(20260101, 11);
  const auto stride = [&](int64_t given) { return given == 0 ? s.heads * s.head_dim : given; };
  Numbers q(s.batch * s.seq_q * stride(s.stride_q)), k(s.batch * s.seq_k * stride(s.stride_k));
  Numbers v(s.batch * s.seq_k * stride(s.stride_v)), out(s.batch * s.seq_q * stride(s.stride_out));
  Numbers lse(s.batch * s.heads * s.seq_q), dout = out, dq = q, dk = k, dv = v;
  for (Numbers* input : {&q, &k, &v, &dout}) input->randomise(rng);

  Parallel par{1};
  std::vector<std::byte> scratch(attention_grad_scratch_bytes(s, 1) +
                                 attention_scratch_bytes(s, 1) + 64);
  attention(par, s, q.single.data(), k.single.data(), v.single.data(), out.single.data(),
            lse.single.data(), scratch.data());
  attention_grad(
      par, s,
      {q.single.data(), k.single.data(), v.single.data(), out.single.data(), lse.single.data(),
       dout.single.data(), dq.single.data(), dk.single.data(), dv.single.data()},
      scratch.data());

  EvaluatedGraph forward({&q.wide, &k.wide, &v.wide, &out.wide, &lse.wide});
  build_attention(forward, s);
  EvaluatedGraph gradient(
      {&q.wide, &k.wide, &v.wide, &out.wide, &lse.wide, &dout.wide, &dq.wide, &dk.wide, &dv.wide});
  build_attention_grad(gradient, s, sums);
  out.expect_equal("out");
  lse.expect_equal("lse");
  dq.expect_equal("dq");
  dk.expect_equal("dk");
  dv.expect_equal("dv");
}

TEST(CudnnGraphs, MeanAttentionAndItsGradient) {
  const AttentionShape all{.batch = 2, .heads = 3, .seq_q = 5, .seq_k = 7, .head_dim = 4};
  expect_graphs_mean(all, GradientSums::kOrdered);
  expect_graphs_mean(all, GradientSums::kAsTheyCome);
}

TEST(CudnnGraphs, MaskFromTheLastPositionOfBothSequences) {
  AttentionShape s{
      .batch = 1, .heads = 2, .seq_q = 6, .seq_k = 6, .head_dim = 4, .causal = true, .scale = 0.7};
  expect_graphs_mean(s, GradientSums::kOrdered);
  s.seq_k = 9;
  expect_graphs_mean(s, GradientSums::kAsTheyCome);
}

TEST(CudnnGraphs, ReadTensorsWithTheirStrides) {
  expect_graphs_mean({.batch = 2,
                      .heads = 2,
                      .seq_q = 4,
                      .seq_k = 5,
                      .head_dim = 3,
                      .causal = true,
                      .stride_q = 18,
                      .stride_k = 12,
                      .stride_v = 7,
                      .stride_out = 9},
                     GradientSums::kOrdered);
}

// ---- Shapes for which Gangway asks cuDNN ----

constexpr AttentionShape kGpt2{.dtype = DType::kBF16,
                               .batch = 8,
                               .heads = 12,
                               .seq_q = 1024,
                               .seq_k = 1024,
                               .head_dim = 64,
                               .causal = true};
constexpr size_t kNew = 91900;

TEST(CudnnAttention, CudnnIsAskedOnlyForShapesThatItHasKernelsFor) {
  const auto why_not = [](AttentionPass pass, size_t version, const auto& change) {
    AttentionShape shape = kGpt2;
    change(shape);
    return why_not_cudnn(shape, pass, version);
  };
  const auto forward = AttentionPass::kForward, gradient = AttentionPass::kGradient;
  EXPECT_THAT(why_not(forward, kNew, [](auto&) {}), IsEmpty());
  EXPECT_THAT(why_not(gradient, kNew, [](auto&) {}), IsEmpty());
  EXPECT_THAT(why_not(forward, kNew, [](auto& s) { s.dtype = DType::kF32; }), HasSubstr("f32"));
  EXPECT_THAT(why_not(forward, kNew, [](auto& s) { s.head_dim = 60; }), HasSubstr("60"));
  EXPECT_THAT(why_not(forward, kNew, [](auto& s) { s.head_dim = 136; }), HasSubstr("136"));
  EXPECT_THAT(why_not(forward, kNew, [](auto& s) { s.stride_k = 769; }), HasSubstr("769"));
  EXPECT_THAT(why_not(forward, kNew, [](auto& s) { s.seq_k = 1000; }), HasSubstr("see no key"));
  const auto odd = [](auto& s) { s.seq_k = 1025; };
  EXPECT_THAT(why_not(gradient, kNew, odd), IsEmpty());
  EXPECT_THAT(why_not(gradient, 91500, odd), HasSubstr("before 9.16"));
  EXPECT_THAT(why_not(forward, 91500, odd), IsEmpty());
}

TEST(CudnnAttention, AddsInOneOrderWhereThatCostsLittle) {
  EXPECT_EQ(gradient_sums(kGpt2, 80), GradientSums::kOrdered);
  EXPECT_EQ(gradient_sums(kGpt2, 90), GradientSums::kOrdered);
  EXPECT_EQ(gradient_sums(kGpt2, 100), GradientSums::kAsTheyCome);
  AttentionShape longer = kGpt2;
  longer.seq_q = longer.seq_k = 8192;
  EXPECT_EQ(gradient_sums(longer, 90), GradientSums::kAsTheyCome);
  AttentionShape chosen = kGpt2;
  chosen.deterministic = true;
  EXPECT_EQ(gradient_sums(chosen, 90), GradientSums::kOrdered);
  chosen.deterministic = false;
  EXPECT_EQ(gradient_sums(chosen, 90), GradientSums::kAsTheyCome);
}

// ---- Plans ----

struct Card {
  const char* name;
  uint32_t architecture, multiprocessors, shared_bytes;
};

// A card's properties in the form in which cuDNN writes them.
std::string json_of(const Card& card) {
  return cat(R"({"deviceName":")", card.name, R"(","deviceVer":)", card.architecture * 10,
             R"(,"multiProcessorCount":)", card.multiprocessors,
             R"(,"maxSharedMemoryPerBlockOptin":)", card.shared_bytes,
             R"(,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
             R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
             R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
             R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
             R"("supportCoopLaunch":1,"totalGlobalMem":85017493504,"smClockRateKHz":1980000,)"
             R"("memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,)"
             R"("driverVer":13000})");
}

class Plans : public testing::TestWithParam<Card> {
 protected:
  void SetUp() override {
    // The library must have the name that cuDNN will ask for. A real driver serves as well.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const std::string stand_in =
          tests::build_folder() + "/tests/cuda_module/no_driver/libcuda.so.1";
      ASSERT_NE(dlopen(stand_in.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    }
    const Result<Cudnn> found = load_cudnn();
    if (!found.ok()) GTEST_SKIP() << found.error().message();
    cudnn_ = found.value();
  }
  // Returns the plan's scratch bytes; 0 if it needs none.
  int64_t plan(const AttentionShape& shape, AttentionPass pass) {
    CudnnGraph graph(cudnn_);
    if (pass == AttentionPass::kForward) build_attention(graph, shape);
    if (pass == AttentionPass::kGradient)
      build_attention_grad(graph, shape, gradient_sums(shape, GetParam().architecture));
    const Result<CudnnPlan> made = graph.plan({.handle = nullptr, .card = json_of(GetParam())});
    if (made.ok()) return made.value().scratch_bytes();
    ADD_FAILURE() << made.error().message();
    return -1;
  }
  void expect_plans(const AttentionShape& shape) {
    const int64_t scores = shape.batch * shape.heads * shape.seq_q * shape.seq_k;
    EXPECT_LT(plan(shape, AttentionPass::kForward), 1 << 20);
    const int64_t bytes = plan(shape, AttentionPass::kGradient);
    const int64_t row = shape.batch * shape.heads * shape.seq_q * 4;
    if (gradient_sums(shape, GetParam().architecture) == GradientSums::kOrdered) {
      EXPECT_GE(bytes, 2 * scores + row);
    } else {
      EXPECT_GE(bytes, row * (shape.head_dim + 1));
      EXPECT_LT(bytes, 3 * row * (shape.head_dim + 1));
    }
  }
  Cudnn cudnn_;
};

TEST_P(Plans, AreMadeOfGpt2sAttention) { expect_plans(kGpt2); }

TEST_P(Plans, AreMadeWithoutAMask) {
  AttentionShape shape = kGpt2;
  shape.causal = false;
  shape.head_dim = 128;
  shape.seq_k = 1000;
  expect_plans(shape);
}

TEST_P(Plans, AreMadeOfFewQueriesAtTheEndOfManyKeys) {
  AttentionShape shape = kGpt2;
  shape.seq_q = 200;
  shape.stride_q = shape.stride_k = shape.stride_v = 3 * shape.heads * shape.head_dim;
  expect_plans(shape);
}

TEST_P(Plans, AreRefusedForWhatHasNoKernel) {
  CudnnGraph graph(cudnn_);
  AttentionShape shape = kGpt2;
  shape.head_dim = 60;  // Rows of 120 bytes.
  build_attention(graph, shape);
  const Result<CudnnPlan> made = graph.plan({.handle = nullptr, .card = json_of(GetParam())});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind(), ErrorKind::kUnimplemented);
}

INSTANTIATE_TEST_SUITE_P(Cards, Plans,
                         testing::Values(Card{"A100", 80, 108, 166912},
                                         Card{"H100", 90, 132, 232448},
                                         Card{"B200", 100, 148, 232448}),
                         [](const auto& card) { return card.param.name; });

}  // namespace
}  // namespace gangway::cuda
