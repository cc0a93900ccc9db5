#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/devices/cuda/lower/chain_source.h"
#include "tests/cuda/card_suites.h"

namespace gangway {
namespace {

using namespace cuda;

constexpr int64_t kN = 1000;

Access reads(const float* data, int64_t n) { return {data, n * 4, AccessKind::kRead}; }
Access writes(const float* data, int64_t n) { return {data, n * 4, AccessKind::kWrite}; }

// A card with one stream, and short functions for tests.
class Table {
 public:
  explicit Table(Card card)
      : card_(std::move(card)), driver(*card_.driver), stream(driver.make_stream("test").take()) {}
  ~Table() { EXPECT_EQ(card_.report(), ""); }

  At at(std::string_view label) const { return {stream, label}; }
  float* buffer(int64_t n) {
    return reinterpret_cast<float*>(driver.allocate(at("buffer"), n * 4).take());
  }
  float* filled(int64_t n, float value) {
    auto* staging = reinterpret_cast<float*>(driver.allocate_pinned(n * 4).take());
    driver.host_access(writes(staging, n), "stage");
    std::fill_n(staging, n, value);
    float* data = buffer(n);
    EXPECT_TRUE(driver.copy(at("upload"), data, staging, n * 4).ok());
    return data;
  }
  std::vector<float> read(const float* data, int64_t n) {
    auto* staging = reinterpret_cast<float*>(driver.allocate_pinned(n * 4).take());
    EXPECT_TRUE(driver.copy(at("download"), staging, data, n * 4).ok());
    EXPECT_TRUE(driver.synchronize(stream).ok());
    driver.host_access(reads(staging, n), "look");
    return {staging, staging + n};
  }
  Status launch(ModuleHandle module, const char* kernel, const std::vector<Access>& accesses,
                const std::vector<const void*>& arguments) {
    return driver.launch(at(kernel), {.kernel = driver.kernel(module, kernel).take(),
                                      .grid = {4},
                                      .block = {256},
                                      .arguments = arguments,
                                      .accesses = accesses});
  }
  // sum += a
  Status add_to(float* sum, const float* a) {
    return launch({}, "add_f32", {reads(a, kN), {sum, kN * 4, AccessKind::kReadWrite}},
                  {&sum, &a, &sum, &kN});
  }
  // The tensors follow a, b and c. False: no library has this epilogue.
  bool multiply(const MatmulDesc& desc, const Epilogue& epilogue,
                const std::vector<void*>& tensors) {
    const Result<Prepared> product = driver.prepare(desc, epilogue);
    if (!product.ok()) {
      EXPECT_EQ(product.error().kind(), ErrorKind::kUnimplemented);
      return false;
    }
    const Prepared& made = product.value();
    std::byte* scratch = driver.allocate(at("scratch"), made.scratch_bytes).take();
    EXPECT_TRUE(driver.run(at("dot"), made.operation, tensors, scratch).ok());
    return true;
  }
  CommHandle comm_of_one() {
    const CommHandle comm = driver.create_comm(driver.new_comm_id().take(), 0, 1).take();
    while (driver.query(comm).kind == StatusKind::kNotReady) {
    }
    return comm;
  }
  Status sum_over(CommHandle comm, float* data) {
    const CollectiveTensor tensor{data, data, kN, DType::kF32};
    return driver.all_reduce(at("sum"), comm, {&tensor, 1}, Reduction::kSum);
  }

 private:
  const Card card_;

 public:
  Driver& driver;
  const StreamHandle stream;
};

TEST_P(CardDriver, LaunchesAndCopiesInOrder) {
  Table t(GetParam().make());
  float *a = t.filled(kN, 1), *b = t.filled(kN, 2);
  ASSERT_TRUE(t.add_to(b, a).ok());
  EXPECT_EQ(t.read(b, kN), std::vector<float>(kN, 3));
}

TEST_P(CardDriver, AnEventOrdersTwoStreams) {
  Table t(GetParam().make());
  const StreamHandle other = t.driver.make_stream("other").take();
  const EventHandle ready = t.driver.make_event().take(), done = t.driver.make_event().take();
  float *a = t.filled(kN, 1), *c = t.buffer(kN);
  ASSERT_TRUE(t.driver.record(t.at("ready"), ready).ok());
  ASSERT_TRUE(t.driver.wait({other, "wait"}, ready).ok());
  ASSERT_TRUE(t.driver.copy({other, "copy"}, c, a, kN * 4).ok());
  ASSERT_TRUE(t.driver.record({other, "done"}, done).ok());
  ASSERT_TRUE(t.driver.synchronize(done).ok());
  EXPECT_TRUE(t.driver.query(done).ok());
  EXPECT_GE(t.driver.elapsed_ns(ready, done).take(), 0);
  EXPECT_EQ(t.read(c, kN), std::vector<float>(kN, 1));
}

TEST_P(CardDriver, AGraphIsReplayed) {
  Table t(GetParam().make());
  float *a = t.filled(kN, 1), *sum = t.filled(kN, 0);
  ASSERT_TRUE(t.driver.begin_capture(t.stream).ok());
  ASSERT_TRUE(t.add_to(sum, a).ok());
  const GraphHandle graph = t.driver.end_capture(t.stream).take();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(t.driver.launch(t.at("step"), graph).ok());
  EXPECT_EQ(t.read(sum, kN), std::vector<float>(kN, 5));
  t.driver.destroy(graph);
}

constexpr MatmulDesc kProduct{.m = 16, .n = 32, .k = 8, .transpose_b = true};
constexpr int64_t kResults = 16 * 32;

TEST_P(CardDriver, MultipliesMatrices) {
  Table t(GetParam().make());
  float *a = t.filled(16 * 8, 2), *b = t.filled(32 * 8, 3), *c = t.buffer(kResults);
  ASSERT_TRUE(t.multiply(kProduct, {}, {a, b, c}));
  EXPECT_EQ(t.read(c, kResults), std::vector<float>(kResults, 48));
}

TEST_P(CardDriver, AProductHasItsEpilogue) {
  const auto gelu = [](float x) {
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  };
  Table t(GetParam().make());
  float *a = t.filled(16 * 8, 0.25f), *b = t.filled(32 * 8, 0.5f), *c = t.buffer(kResults);
  float *bias = t.filled(32, 1), *pre = t.buffer(kResults);
  if (!t.multiply(kProduct, {.bias = true, .activation = Activation::kGeluTanh}, {a, b, c, bias}))
    GTEST_SKIP() << "no library of this card has epilogues";
  for (const float x : t.read(c, kResults)) ASSERT_NEAR(x, gelu(2), 1e-5f);
  ASSERT_TRUE(t.multiply(kProduct, {.activation = Activation::kGeluTanh, .keep_input = true},
                         {a, b, c, pre}));
  for (const float x : t.read(c, kResults)) ASSERT_NEAR(x, gelu(1), 1e-5f);
  EXPECT_EQ(t.read(pre, kResults), std::vector<float>(kResults, 1));
  ASSERT_TRUE(
      t.multiply(kProduct, {.bias = true, .activation = Activation::kRelu}, {a, b, c, bias}));
  EXPECT_EQ(t.read(c, kResults), std::vector<float>(kResults, 2));
  float* added = t.filled(kResults, 3);
  ASSERT_TRUE(t.multiply(kProduct, {.added = true}, {a, b, c, added}));
  EXPECT_EQ(t.read(c, kResults), std::vector<float>(kResults, 4));
}

TEST_P(CardDriver, AProductIsTakenBackThroughAGelu) {
  Table t(GetParam().make());
  float *a = t.filled(16 * 8, 0.5f), *b = t.filled(32 * 8, 0.5f), *c = t.buffer(kResults);
  float* pre = t.filled(kResults, 0.7f);
  if (!t.multiply(kProduct, {.activation = Activation::kGeluTanh, .gradient = true},
                  {a, b, c, pre}))
    GTEST_SKIP() << "no library of this card has that epilogue";
  // The slope of a gelu at 0.7.
  for (const float x : t.read(c, kResults)) ASSERT_NEAR(x, 2 * 0.9763572187f, 1e-5f);
}

TEST_P(CardDriver, RunsAChainThatWasCompiledForIt) {
  Table t(GetParam().make());
  const FusedProgram twice{.inputs = {{DType::kF32, FusedInput::kFull}},
                           .code = {{FusedOp::kAdd, DType::kF32, {0, 0}}},
                           .outputs = {{1, DType::kF32}}};
  const ModuleHandle module = t.driver.compile({"chain.cu", chain_source(twice)}).take();
  float *in = t.filled(kN, 4), *out = t.buffer(kN);
  const int64_t outer = 1;
  ASSERT_TRUE(
      t.launch(module, kChainKernel, {reads(in, kN), writes(out, kN)}, {&in, &out, &outer, &kN})
          .ok());
  EXPECT_EQ(t.read(out, kN), std::vector<float>(kN, 8));
  t.driver.destroy(module);
}

TEST_P(CardDriver, RefusesWhatIsBeyondItsBudget) {
  Table t(GetParam().make());
  const auto more = t.driver.allocate(t.at("more"), int64_t{1} << 50);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().kind(), ErrorKind::kOverloaded);
}

TEST_P(CardDriver, ACommunicatorOfOneReduces) {
  Table t(GetParam().make());
  const CommHandle comm = t.comm_of_one();
  float* a = t.filled(kN, 7);
  ASSERT_TRUE(t.sum_over(comm, a).ok());
  EXPECT_EQ(t.read(a, kN), std::vector<float>(kN, 7));
  t.driver.destroy(comm);
}

}  // namespace
}  // namespace gangway
