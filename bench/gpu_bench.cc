// Measures what a GPU takes for the parts of a step: a launch, a replayed graph, products,
// attention, products of experts in bf16 and in TF32.
//
// Why it matters: the device enqueues a step with these calls. How to read it: `flops` counts
// multiplications and additions in a second of the GPU. Skipped if there is no GPU. Goal: a
// replayed function is launched in 10 us.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <vector>

#include "executor/devices/cuda/cuda_device.h"
#include "executor/devices/cuda/driver/loader.h"
#include "executor/devices/cuda/lower/own_operation.h"
#include "executor/devices/task.h"
#include "executor/store/buffer.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"

namespace gangway::cuda {
namespace {

// Enqueuing one kernel fails only if the benchmark itself is wrong.
void must(const Status& status) {
  if (!status.ok()) throw to_error(status);
}

// One GPU and one stream; its destructor frees what it allocated.
class Card {
 public:
  Card() : driver(open_gpu({})), stream(driver->make_stream("bench").take()) {}
  ~Card() {
    for (std::byte* data : held_) static_cast<void>(driver->free(at("free"), data));
    driver->destroy(stream);
  }
  At at(std::string_view label) const { return {stream, label}; }
  // Filled with zeros.
  std::byte* buffer(int64_t bytes) {
    held_.push_back(driver->allocate(at("buffer"), bytes).take());
    must(driver->fill(at("zero"), held_.back(), 0, bytes));
    return held_.back();
  }
  // Numbers in bf16 like those of training: a GPU multiplies zeros faster, since they take less
  // power.
  std::byte* normals(int64_t bytes) {
    std::byte* const data = buffer(bytes);
    const std::byte* const key = buffer(8);
    const int64_t n = bytes / 2;
    const void* arguments[] = {&key, &data, &drawn_, &n};
    must(driver->launch(at("normals"), {.kernel = driver->kernel({}, "normal_bf16").take(),
                                        .grid = {1024},
                                        .block = {256},
                                        .arguments = arguments,
                                        .accesses = {}}));
    drawn_ += n;
    return data;
  }

  const std::shared_ptr<Driver> driver;
  const StreamHandle stream;

 private:
  std::vector<std::byte*> held_;
  int64_t drawn_ = 0;
};

bool missing(benchmark::State& state) {
  const FoundGpus found = find_gpus();
  if (found.gpus.empty()) state.SkipWithError(found.why_none.c_str());
  return found.gpus.empty();
}

// Times ten calls of `enqueue` at once, so that the GPU and not the host is measured.
template <class Enqueue>
void measure(benchmark::State& state, Card& card, double flops, const Enqueue& enqueue) {
  constexpr int kAtOnce = 10;
  for (auto _ : state) {
    for (int i = 0; i < kAtOnce; ++i) {
      if (const Status status = enqueue(); !status.ok())
        return state.SkipWithError(status.text.c_str());
    }
    if (const Status status = card.driver->synchronize(card.stream); !status.ok())
      return state.SkipWithError(status.text.c_str());
  }
  const double runs = static_cast<double>(state.iterations()) * kAtOnce;
  state.counters["runs"] = benchmark::Counter(runs, benchmark::Counter::kIsRate);
  if (flops > 0)
    state.counters["flops"] = benchmark::Counter(runs * flops, benchmark::Counter::kIsRate);
}

// A library's operation, or Gangway's own if no library offers it; the label tells which.
void run_operation(benchmark::State& state, Card& card, const Result<Prepared>& made,
                   const std::function<Result<OwnOperation>()>& make_own,
                   const std::vector<void*>& tensors, double flops) {
  if (made.ok()) {
    state.SetLabel("library");
    std::byte* scratch = card.buffer(made.value().scratch_bytes + 1);
    const PreparedHandle operation = made.value().operation;
    measure(state, card, flops,
            [&] { return card.driver->run(card.at("run"), operation, tensors, scratch); });
    return card.driver->destroy(operation);
  }
  if (made.error().kind() != ErrorKind::kUnimplemented)
    return state.SkipWithError(made.error().message().c_str());
  const Result<OwnOperation> own = make_own();
  if (!own.ok()) return state.SkipWithError(own.error().message().c_str());
  state.SetLabel("own kernels");
  std::byte* scratch = card.buffer(own.value().scratch_bytes + 1);
  measure(state, card, flops,
          [&] { return own.value().run(*card.driver, card.at("run"), tensors, scratch); });
}

std::vector<void*> normals(Card& card, const std::vector<int64_t>& bytes) {
  std::vector<void*> tensors;
  for (int64_t size : bytes) tensors.push_back(card.normals(size));
  return tensors;
}

Status add(Card& card, const std::byte* data, int64_t n) {
  const void* arguments[] = {&data, &data, &data, &n};
  return card.driver->launch(card.at("add"), {.kernel = card.driver->kernel({}, "add_f32").take(),
                                              .grid = {1},
                                              .block = {256},
                                              .arguments = arguments,
                                              .accesses = {}});
}

void BM_Launch(benchmark::State& state) {
  if (missing(state)) return;
  Card card;
  const std::byte* data = card.buffer(1024);
  measure(state, card, 0, [&] { return add(card, data, 256); });
}
BENCHMARK(BM_Launch)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_GraphOf128Launches(benchmark::State& state) {
  if (missing(state)) return;
  Card card;
  const std::byte* data = card.buffer(1024);
  must(card.driver->begin_capture(card.stream));
  for (int i = 0; i < 128; ++i) must(add(card, data, 256));
  const GraphHandle graph = card.driver->end_capture(card.stream).take();
  measure(state, card, 0, [&] { return card.driver->launch(card.at("graph"), graph); });
  card.driver->destroy(graph);
}
BENCHMARK(BM_GraphOf128Launches)->UseRealTime()->Unit(benchmark::kMicrosecond);

// A function of 32 kernels.
std::shared_ptr<const CompiledFunction> kernels_in_a_row(CudaDevice& device) {
  Builder b("kernels");
  Value x = b.parameter("x", f32({256}));
  for (int i = 0; i < 32; ++i) x = exp(-x);
  b.result("y", x);
  auto function = std::make_shared<Function>(b.build());
  function->local = true;
  return device.compiler().compile(
      {function, static_cast<NodeId>(function->nodes.size()), {}, kNone});
}

// Measures how long its call takes on the device's thread, not on the GPU.
double call_s(DeviceStream& stream, const CompiledFunction& compiled, std::byte* data) {
  CallFrame frame{.bases = {data, data + 1024, data + 2048}, .end = compiled.step_count()};
  double spent_s = 0;
  std::promise<void> done;
  enqueue_task(
      stream,
      [&](Turn& turn) {
        const auto begin = std::chrono::steady_clock::now();
        const Progress progress = compiled.advance(frame, turn);
        const auto end = std::chrono::steady_clock::now();
        spent_s = std::chrono::duration<double>(end - begin).count();
        return progress;
      },
      [&](const std::shared_ptr<const Error>&) { done.set_value(); });
  done.get_future().wait();
  return spent_s;
}

void BM_ReplayedFunction(benchmark::State& state) {
  if (missing(state)) return;
  CudaDevice device({.name = "cuda-0",
                     .memory_bytes = int64_t{1} << 20,
                     .gpu = std::make_shared<Gpu>(open_gpu({}))});
  const auto compiled = kernels_in_a_row(device);
  const BufferPtr buffer =
      allocate_buffer(device.memory(), 2048 + compiled->arena_bytes(), "kernels");
  for (int i = 0; i < 10; ++i)
    call_s(device.stream(), *compiled, buffer->data());  // The second captures.
  const uint64_t before = device.stream().graphs().launches();
  for (auto _ : state) state.SetIterationTime(call_s(device.stream(), *compiled, buffer->data()));
  if (device.stream().graphs().launches() - before != static_cast<uint64_t>(state.iterations()))
    state.SkipWithError("not every call was replayed");
}
BENCHMARK(BM_ReplayedFunction)->UseManualTime()->Unit(benchmark::kMicrosecond);

void BM_Matmul(benchmark::State& state) {
  if (missing(state)) return;
  Card card;
  const int64_t n = state.range(0);
  const MatmulDesc desc{
      .a = DType::kBF16, .b = DType::kBF16, .c = DType::kBF16, .m = n, .n = n, .k = n};
  const auto cube = static_cast<double>(n * n * n);
  const auto none = [] { return Error(ErrorKind::kUnimplemented, "no product"); };
  run_operation(state, card, card.driver->prepare(desc, {}), none,
                normals(card, {2 * n * n, 2 * n * n, 2 * n * n}), 2 * cube);
}
BENCHMARK(BM_Matmul)->Arg(1024)->Arg(4096)->Arg(8192)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_Attention(benchmark::State& state) {
  if (missing(state)) return;
  Card card;
  const bool gradient = state.range(0) != 0;
  const AttentionShape shape{.dtype = DType::kBF16,
                             .batch = 8,
                             .heads = 12,
                             .seq_q = 1024,
                             .seq_k = 1024,
                             .head_dim = 64,
                             .causal = true};
  const int64_t x = 2 * shape.batch * shape.heads * shape.seq_q * shape.head_dim;
  const int64_t lse = 4 * shape.batch * shape.heads * shape.seq_q;
  // Half of the scores are masked: two products forward, five back.
  const double flops = static_cast<double>(x / 2 * shape.seq_k) * (gradient ? 5 : 2);
  std::vector<int64_t> bytes = {x, x, x, x, lse};
  if (gradient) bytes.insert(bytes.end(), {x, x, x, x});
  Driver& driver = *card.driver;
  run_operation(
      state, card,
      gradient ? driver.prepare_attention_grad(shape) : driver.prepare_attention(shape),
      [&] {
        return gradient ? OwnOperation::attention_grad(driver, shape)
                        : OwnOperation::attention(driver, shape);
      },
      normals(card, bytes), flops);
}
BENCHMARK(BM_Attention)
    ->ArgName("gradient")
    ->Arg(0)
    ->Arg(1)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void BM_Experts(benchmark::State& state) {
  if (missing(state)) return;
  Card card;
  const int64_t slots = 8192, experts = 8, d = 768, h = 3072;
  const bool tf32 = state.range(1) != 0;
  const DType dtype = tf32 ? DType::kF32 : DType::kBF16;
  const GroupedMatmulDesc desc{.kind = static_cast<GroupedKind>(state.range(0)),
                               .in0 = dtype,
                               .in1 = dtype,
                               .out = dtype,
                               .slots = slots,
                               .experts = experts,
                               .d = d,
                               .h = h,
                               .allow_tf32 = tf32};
  const std::vector<int32_t> equal(experts, slots / experts);
  std::byte* staging = card.driver->allocate_pinned(experts * 4).take();
  std::copy_n(reinterpret_cast<const std::byte*>(equal.data()), experts * 4, staging);
  // Large enough for each kind's operands. Two normals in bf16 are a float of about their size.
  const auto size = static_cast<int64_t>(size_of(dtype));
  const int64_t rows = size * slots * h, matrices = size * experts * d * h;
  std::byte *in0 = card.normals(rows), *in1 = card.normals(std::max(rows, matrices));
  std::byte *sizes = card.buffer(experts * 4), *out = card.buffer(std::max(rows, matrices));
  must(card.driver->copy(card.at("sizes"), sizes, staging, experts * 4));
  run_operation(
      state, card, card.driver->prepare(desc),
      [&] { return OwnOperation::grouped_matmul(*card.driver, desc); }, {in0, in1, sizes, out},
      2.0 * static_cast<double>(slots * d * h));
  card.driver->free_pinned(staging);
}
BENCHMARK(BM_Experts)
    ->ArgNames({"kind", "tf32"})
    ->ArgsProduct({{0, 1, 2}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gangway::cuda
