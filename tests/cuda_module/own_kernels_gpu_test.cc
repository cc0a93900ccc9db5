// Gangway's own attention and products of experts on a real card, against the CPU's kernels.
#include <gtest/gtest.h>

#include <cmath>
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
  void expect_near(const void* data, const std::vector<float>& want, const char* name) {
    const auto bytes = static_cast<int64_t>(want.size() * sizeof(float));
    std::byte* staging = driver_->allocate_pinned(bytes).take();
    ASSERT_TRUE(driver_->copy({stream_, "download"}, staging, data, bytes).ok());
    ASSERT_TRUE(driver_->synchronize(stream_).ok());
    const auto* got = reinterpret_cast<const float*>(staging);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-4 * (1 + std::fabs(want[i]))) << name << " " << i;
  }

  Rng rng_{20260101, 7};
  Parallel par_{1};
  std::shared_ptr<Driver> driver_;
  StreamHandle stream_;
};

TEST_F(CardKernels, AttentionAndItsGradientAreTheCpus) {
  for (const int64_t head_dim : {64, 128}) {  // The second takes more shared memory than all may.
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

// On the matrix unit, each with a kernel of another width. Weights are rounded to bf16, and so are
// results: of numbers of at most 0.5 no element is off by more than two roundings of about 1.
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

TEST_F(CardKernels, ProductsOfExpertsAreTheCpus) {
  const int64_t groups = 2, slots = 200, experts = 3, d = 70, h = 130;
  const std::vector<int32_t> sizes = {90, 0, 110, 1, 65, 20};
  const std::vector<float> x = numbers(groups * slots * d), dy = numbers(groups * slots * h);
  const std::vector<float> w = numbers(experts * d * h);
  const auto check = [&](GroupedKind kind, const std::vector<float>& in0,
                         const std::vector<float>& in1, size_t n) {
    const GroupedMatmulDesc desc{
        .kind = kind, .groups = groups, .slots = slots, .experts = experts, .d = d, .h = h};
    const GroupedMatmul cpu(desc);
    std::vector<float> want(n);
    std::vector<std::byte> scratch(cpu.scratch_bytes(1) + 64);
    cpu.run(par_, in0.data(), in1.data(), sizes.data(), want.data(), scratch.data());
    const std::vector<void*> t = {upload(in0), upload(in1), upload(sizes),
                                  buffer(static_cast<int64_t>(4 * n))};
    run(OwnOperation::grouped_matmul(*driver_, desc).take(), t);
    expect_near(t[3], want, "product");
  };
  check(GroupedKind::kForward, x, w, dy.size());
  check(GroupedKind::kGradInput, dy, w, x.size());
  check(GroupedKind::kGradWeight, x, dy, w.size());
}

}  // namespace
}  // namespace gangway::cuda
