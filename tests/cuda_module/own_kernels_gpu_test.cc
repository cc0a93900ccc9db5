// Gangway's own attention and products of experts on a real card, against the CPU's kernels.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "executor/devices/cuda/driver/loader.h"
#include "executor/devices/cuda/lower/own_operation.h"
#include "executor/kernels/attention.h"
#include "executor/kernels/grouped_matmul.h"
#include "executor/kernels/kernel_test.h"
#include "runtime/base/rng.h"

namespace gangway::cuda {
namespace {

class CardKernels : public testing::Test {
 protected:
  void SetUp() override {
    const FoundGpus found = find_gpus();
    if (found.gpus.empty()) GTEST_SKIP() << found.why_none;
    driver_ = open_gpu({.memory_bytes = int64_t{512} << 20});
    stream_ = driver_->make_stream("test").take();
  }
  std::vector<float> numbers(int64_t n) {
    std::vector<float> made(static_cast<size_t>(n));
    for (float& x : made) x = static_cast<float>(rng_.uniform()) - 0.5f;
    return made;
  }
  std::byte* buffer(int64_t bytes) { return driver_->allocate({stream_, "buffer"}, bytes).take(); }
  template <class T>
  std::byte* upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    std::byte* staging = driver_->allocate_pinned(bytes).take();
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), bytes, staging);
    std::byte* data = buffer(bytes);
    EXPECT_TRUE(driver_->copy({stream_, "upload"}, data, staging, bytes).ok());
    return data;
  }
  void run(const OwnOperation& own, const std::vector<void*>& tensors) {
    std::byte* scratch = buffer(own.scratch_bytes + 1);
    ASSERT_TRUE(own.run(*driver_, {stream_, "run"}, tensors, scratch).ok());
  }
  std::vector<float> download(const void* data, size_t n) {
    const auto bytes = static_cast<int64_t>(n * sizeof(float));
    std::byte* staging = driver_->allocate_pinned(bytes).take();
    EXPECT_TRUE(driver_->copy({stream_, "download"}, staging, data, bytes).ok());
    EXPECT_TRUE(driver_->synchronize(stream_).ok());
    const auto* got = reinterpret_cast<const float*>(staging);
    return {got, got + n};
  }
  void expect_near(const void* data, const std::vector<float>& want, const char* name) {
    const std::vector<float> got = download(data, want.size());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-4 * (1 + std::fabs(want[i]))) << name << " " << i;
  }

  // The operands of all kinds of product.
  struct Experts {
    int64_t d, h;
    std::vector<float> x, dy, w;

    const std::vector<float>& in0(GroupedKind kind) const {
      return kind == GroupedKind::kGradInput ? dy : x;
    }
    const std::vector<float>& in1(GroupedKind kind) const {
      return kind == GroupedKind::kGradWeight ? dy : w;
    }
    size_t results(GroupedKind kind) const {
      return kind == GroupedKind::kForward     ? dy.size()
             : kind == GroupedKind::kGradInput ? x.size()
                                               : w.size();
    }
    GroupedMatmulDesc desc(GroupedKind kind, bool allow_tf32) const {
      return {.kind = kind,
              .groups = kGroups,
              .slots = kSlots,
              .experts = kExperts,
              .d = d,
              .h = h,
              .allow_tf32 = allow_tf32};
    }
  };
  Experts make_experts(int64_t d, int64_t h) {
    return {d, h, numbers(kGroups * kSlots * d), numbers(kGroups * kSlots * h),
            numbers(kExperts * d * h)};
  }
  std::vector<float> of_cpu(const Experts& e, GroupedKind kind) {
    const GroupedMatmul cpu(e.desc(kind, false));
    std::vector<float> made(e.results(kind));
    std::vector<std::byte> scratch(cpu.scratch_bytes(1) + 64);
    cpu.run(par_, e.in0(kind).data(), e.in1(kind).data(), kSizes.data(), made.data(),
            scratch.data());
    return made;
  }
  void* of_card(const Experts& e, GroupedKind kind, bool allow_tf32 = false) {
    const std::vector<void*> t = {upload(e.in0(kind)), upload(e.in1(kind)), upload(kSizes),
                                  buffer(static_cast<int64_t>(4 * e.results(kind)))};
    run(OwnOperation::grouped_matmul(*driver_, e.desc(kind, allow_tf32)).take(), t);
    return t[3];
  }

  static constexpr int64_t kGroups = 2, kSlots = 200, kExperts = 3;
  inline static const std::vector<int32_t> kSizes = {90, 0, 110, 1, 65, 20};
  Rng rng_{20260101, 7};
  Parallel par_{1};
  std::shared_ptr<Driver> driver_;
  StreamHandle stream_;
};

TEST_F(CardKernels, AttentionAndItsGradientAreTheCpus) {
  for (const int64_t head_dim : {64, 128}) {  // At 128 a kernel must ask for its shared memory.
    const AttentionShape s{
        .batch = 2, .heads = 3, .seq_q = 100, .seq_k = 130, .head_dim = head_dim, .causal = true};
    const int64_t rows = s.batch * s.heads, nq = rows * s.seq_q * head_dim;
    const int64_t nk = rows * s.seq_k * head_dim;
    const std::vector<float> q = numbers(nq), k = numbers(nk), v = numbers(nk), dout = numbers(nq);
    std::vector<float> out = q, lse(static_cast<size_t>(rows * s.seq_q)), dq = q, dk = k, dv = k;
    std::vector<std::byte> scratch(attention_grad_scratch_bytes(s, 1) + 64);
    attention(par_, s, q.data(), k.data(), v.data(), out.data(), lse.data(), scratch.data());
    attention_grad(par_, s,
                   {q.data(), k.data(), v.data(), out.data(), lse.data(), dout.data(), dq.data(),
                    dk.data(), dv.data()},
                   scratch.data());
    std::vector<void*> t = {upload(q), upload(k), upload(v), buffer(4 * nq),
                            buffer(4 * rows * s.seq_q)};
    run(OwnOperation::attention(*driver_, s).take(), t);
    expect_near(t[3], out, "out");
    expect_near(t[4], lse, "lse");
    t.insert(t.end(), {upload(dout), buffer(4 * nq), buffer(4 * nk), buffer(4 * nk)});
    run(OwnOperation::attention_grad(*driver_, s).take(), t);
    expect_near(t[6], dq, "dq");
    expect_near(t[7], dk, "dk");
    expect_near(t[8], dv, "dv");
  }
}

// Each width has a kernel of its own on the matrix unit. Weights and results are rounded to bf16,
// and inputs are at most 0.5, so no element is off by more than two roundings of about 1.
TEST_F(CardKernels, AttentionInBf16AndItsGradientAreTheCpus) {
  using test::Buffer;
  for (const int64_t head_dim : {32, 64, 80, 128}) {
    AttentionShape s{
        .batch = 2, .heads = 3, .seq_q = 200, .seq_k = 230, .head_dim = head_dim, .causal = true};
    const int64_t rows = s.batch * s.heads, nq = rows * s.seq_q * head_dim;
    const int64_t nk = rows * s.seq_k * head_dim;
    const int64_t sizes[] = {nq, nk, nk, nq, rows * s.seq_q, nq, nq, nk, nk};
    std::vector<Buffer> want;
    std::vector<void*> card;
    for (const int64_t n : sizes) {
      Buffer rounded(card.size() == 4 ? DType::kF32 : DType::kBF16, n);
      for (int64_t i = 0; i < n; ++i) rounded.set(i, rng_.uniform() - 0.5);
      want.emplace_back(DType::kF32, rounded.values());
      const auto* bytes = static_cast<const std::byte*>(rounded.data());
      card.push_back(upload(std::vector<std::byte>(bytes, bytes + rounded.bytes())));
    }
    std::vector<std::byte> scratch(attention_grad_scratch_bytes(s, 1) + 64);
    attention(par_, s, want[0].data(), want[1].data(), want[2].data(), want[3].data(),
              want[4].data(), scratch.data());
    attention_grad(par_, s,
                   {want[0].data(), want[1].data(), want[2].data(), want[3].data(), want[4].data(),
                    want[5].data(), want[6].data(), want[7].data(), want[8].data()},
                   scratch.data());
    s.dtype = DType::kBF16;
    run(OwnOperation::attention(*driver_, s).take(), {card.begin(), card.begin() + 5});
    run(OwnOperation::attention_grad(*driver_, s).take(), card);
    for (const size_t place : {3, 4, 6, 7, 8}) {
      Buffer got(place == 4 ? DType::kF32 : DType::kBF16, want[place].size());
      const auto bytes = static_cast<int64_t>(got.bytes());
      std::byte* staging = driver_->allocate_pinned(bytes).take();
      ASSERT_TRUE(driver_->copy({stream_, "download"}, staging, card[place], bytes).ok());
      ASSERT_TRUE(driver_->synchronize(stream_).ok());
      std::copy_n(staging, bytes, static_cast<std::byte*>(got.data()));
      for (int64_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got.get(i), want[place].get(i), place == 4 ? 1e-4 : 0.01)
            << head_dim << ": " << place << " " << i;
      }
    }
  }
}

constexpr GroupedKind kKinds[] = {GroupedKind::kForward, GroupedKind::kGradInput,
                                  GroupedKind::kGradWeight};
// Rows of the second shape are whole 16 bytes.
constexpr std::pair<int64_t, int64_t> kExpertShapes[] = {{70, 130}, {72, 136}};

TEST_F(CardKernels, ProductsOfExpertsAreTheCpus) {
  for (const auto& [d, h] : kExpertShapes) {
    const Experts experts = make_experts(d, h);
    for (const GroupedKind kind : kKinds)
      expect_near(of_card(experts, kind), of_cpu(experts, kind), "product");
  }
}

// The tensor cores multiply operands rounded to TF32; the CPU multiplies the same rounded operands.
TEST_F(CardKernels, ProductsOfExpertsInTf32AreTheCpusOfRoundedOperands) {
  for (const auto& [d, h] : kExpertShapes) {
    const Experts experts = make_experts(d, h);
    Experts rounded = experts;
    for (auto* all : {&rounded.x, &rounded.dy, &rounded.w}) {
      for (float& x : *all)
        x = std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000) & ~0x1fffu);
    }
    for (const GroupedKind kind : kKinds) {
      const std::vector<float> want = of_cpu(rounded, kind);
      expect_near(of_card(rounded, kind, true), want, "product");
      EXPECT_EQ(download(of_card(experts, kind, true), want.size()),
                download(of_card(rounded, kind, true), want.size()));
      EXPECT_NE(download(of_card(experts, kind), want.size()),
                download(of_card(rounded, kind, true), want.size()));
    }
  }
}

}  // namespace
}  // namespace gangway::cuda
