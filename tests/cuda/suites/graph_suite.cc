#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "executor/devices/cuda/cuda_device.h"
#include "executor/devices/task.h"
#include "executor/store/buffer.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/fibers/reactor.h"
#include "tests/cuda/card_suites.h"

namespace gangway {
namespace {

std::shared_ptr<const Function> chain() {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  b.result("y", exp(x) * 2.0 - tanh(x));
  Function function = b.build();
  function.local = true;
  return std::make_shared<const Function>(std::move(function));
}

void enqueue_and_wait(Reactor& reactor, DeviceStream& stream,
                      const std::function<Progress(Turn&)>& work) {
  std::atomic<bool> done{false};
  enqueue_task(stream, work, [&](const std::shared_ptr<const Error>& error) {
    EXPECT_EQ(error, nullptr) << error->what();
    reactor.mailbox().post([&done] { done = true; });
  });
  reactor.run_until([&] { return done.load(); });
}

// Iterations read rows that begin at odd places, so each has addresses of its own.
constexpr int64_t kLayers = 5;
std::shared_ptr<const Function> layers() {
  return std::make_shared<const Function>(parse_function(R"(
body 0 local func @layers(%0 "x": f32[3], %1 "w": f32[3]) {
  %2: f32[3] = mul %0, %1
  %3: f32[3] = add %2, %1
  return %3 "x"
}
local func @f(%0 "x": f32[3], %1 "w": f32[5, 3]) {
  %2: f32[3] = scan %0, %1 {carries = 1, invariants = 0, length = 5} body 0
  return %2 "y"
}
)",
                                                         "layers.gw"));
}

// Runs of a function with one result in the same buffers; values are f32, at most kStride bytes.
class Replayed {
 public:
  static constexpr int64_t kStride = 256;

  Replayed(const Card& card, const std::shared_ptr<const Function>& function)
      : parameters_(static_cast<int64_t>(function->parameters.size())),
        elements_(static_cast<size_t>(function->types[function->results[0]].elements())),
        device_({.name = "cuda-0",
                 .memory_bytes = 1 << 20,
                 .gpu = std::make_shared<cuda::Gpu>(card.driver)}),
        compiled_(device_.compiler().compile(
            {function, static_cast<NodeId>(function->nodes.size()), {}, kNone})),
        buffer_(allocate_buffer(device_.memory(),
                                (parameters_ + 1) * kStride + compiled_->arena_bytes(), "f")),
        host_(device_.memory().host_memory((parameters_ + 1) * kStride)) {}

  CudaStream& stream() { return device_.stream(); }
  std::vector<float> run(const std::vector<std::vector<float>>& arguments) {
    for (size_t p = 0; p < arguments.size(); ++p) {
      device_.memory().host_access(HostAccess::kWrite, host(p), bytes_of(arguments[p]));
      std::ranges::copy(arguments[p], host(p));
    }
    CallFrame frame{.end = compiled_->step_count()};
    for (size_t base = 0; base < arguments.size() + 2; ++base)
      frame.bases.push_back(buffer_->data() + static_cast<int64_t>(base) * kStride);
    std::vector<float> result(elements_);
    float* const told = host(arguments.size());
    enqueue_and_wait(*reactor_, device_.stream(), [&](Turn& turn) {
      for (size_t p = 0; p < arguments.size(); ++p)
        turn.stream.copy(frame.bases[p], host(p), bytes_of(arguments[p]));
      EXPECT_EQ(compiled_->advance(frame, turn), Progress::kDone);
      turn.stream.copy(told, frame.bases[arguments.size()], bytes_of(result));
      return Progress::kDone;
    });
    device_.memory().host_access(HostAccess::kRead, told, bytes_of(result));
    std::copy_n(told, result.size(), result.begin());
    return result;
  }

 private:
  static int64_t bytes_of(const std::vector<float>& values) {
    return static_cast<int64_t>(values.size() * sizeof(float));
  }
  float* host(size_t value) const {
    return reinterpret_cast<float*>(host_.get() + static_cast<int64_t>(value) * kStride);
  }

  const int64_t parameters_;
  const size_t elements_;  // Elements of the result.
  const std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  CudaDevice device_;
  const std::shared_ptr<const CompiledFunction> compiled_;
  const BufferPtr buffer_;
  const HostMemory host_;
};

TEST_P(CardGraphs, CommandsThatComeAgainWithTheirAddressesAreReplayedAsOneGraph) {
  const Card card = GetParam().make();
  {
    Replayed function(card, chain());
    for (int run = 0; run < 5; ++run) {
      const auto at = static_cast<float>(run);
      EXPECT_NEAR(function.run({std::vector<float>(4, at)})[0], std::exp(at) * 2 - std::tanh(at),
                  1e-4);
    }
    EXPECT_EQ(function.stream().graphs().captures(), 1u);
    EXPECT_EQ(function.stream().graphs().launches(), 4u);
  }
  EXPECT_EQ(card.report(), "");
}

TEST_P(CardGraphs, TheIterationsOfAScanAreReplayedAsOneGraph) {
  const Card card = GetParam().make();
  {
    Replayed function(card, layers());
    for (int run = 0; run < 5; ++run) {
      std::vector<float> w, want(3, static_cast<float>(run));
      for (int i = 0; i < 3 * kLayers; ++i) w.push_back(static_cast<float>((i + run) % 3));
      const std::vector<float> x = want;
      for (size_t i = 0; i < w.size(); ++i) want[i % 3] = want[i % 3] * w[i] + w[i];
      EXPECT_EQ(function.run({x, w}), want);
    }
    EXPECT_EQ(function.stream().graphs().captures(), 1u);
    EXPECT_EQ(function.stream().graphs().launches(), 4u);
  }
  EXPECT_EQ(card.report(), "");
}

}  // namespace
}  // namespace gangway
