#include "tests/conformance/device_suite.h"

#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <vector>

#include "executor/devices/task.h"
#include "executor/store/buffer.h"
#include "executor/work/event.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Host memory that the device's copies reach.
template <class T>
class HostArray {
 public:
  HostArray(DeviceMemory& memory, const std::vector<T>& values)
      : of_(memory),
        bytes_(static_cast<int64_t>(values.size() * sizeof(T))),
        memory_(memory.host_memory(bytes_)) {
    of_.host_access(HostAccess::kWrite, data(), bytes_);
    std::copy(values.begin(), values.end(), data());
  }
  T* data() { return reinterpret_cast<T*>(memory_.get()); }
  int64_t bytes() const { return bytes_; }
  std::vector<T> values() {
    of_.host_access(HostAccess::kRead, data(), bytes_);
    return {data(), data() + bytes_ / static_cast<int64_t>(sizeof(T))};
  }

 private:
  DeviceMemory& of_;
  int64_t bytes_;
  HostMemory memory_;
};

std::shared_ptr<const CompiledFunction> compile(DeviceCompiler& compiler, Function function) {
  function.local = true;
  auto shared = std::make_shared<const Function>(std::move(function));
  return compiler.compile({shared, static_cast<NodeId>(shared->nodes.size()), {}, kNone});
}

TEST_P(DeviceSuite, WorksOfAStreamRunInTheOrderOfEnqueueing) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    enqueue([&order, i](Turn&) {
      order.push_back(i);
      return Progress::kDone;
    });
  }
  drain();
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(DeviceSuite, PendingWorkGoesOnWhenRungAndHoldsBackWhatFollows) {
  auto event = std::make_shared<Event>();
  event->on_ready([this] { device->stream().ring(); });
  std::atomic<bool> followed{false};
  enqueue([event](Turn&) { return event->ready() ? Progress::kDone : Progress::kPending; });
  enqueue([&followed](Turn&) {
    followed = true;
    return Progress::kDone;
  });
  reactor->run_ready();
  EXPECT_FALSE(followed);
  event->record();
  drain();
  EXPECT_TRUE(followed);
}

TEST_P(DeviceSuite, PendingWorkHoldsBackNeitherTasksNorOtherStreams) {
  auto event = std::make_shared<Event>();
  event->on_ready([this] { device->stream().ring(); });
  enqueue([event](Turn&) { return event->ready() ? Progress::kDone : Progress::kPending; });
  RankStream other;
  std::atomic<int> passed{0};
  const auto pass = [&passed](Turn&) {
    ++passed;
    return Progress::kDone;
  };
  enqueue_task(device->stream(), pass);
  enqueue_task(device->stream(), pass, [](const std::shared_ptr<const Error>&) {},
               {.rank_stream = &other});
  drain(&other);
  EXPECT_EQ(passed, 2);
  event->record();
  drain();
}

TEST_P(DeviceSuite, PendingWorkIsWokenWhenItsTimeHasCome) {
  const int64_t until_ns = device->stream().now_ns() + 2'000'000;
  int64_t seen_ns = 0;
  enqueue([&](Turn& turn) {
    seen_ns = turn.stream.now_ns();
    if (seen_ns >= until_ns) return Progress::kDone;
    turn.wake_by(until_ns);
    return Progress::kPending;
  });
  drain();
  EXPECT_GE(seen_ns, until_ns);
}

TEST_P(DeviceSuite, AnEventCarriesTheFirstErrorToWhoeverLooks) {
  Event event;
  EXPECT_FALSE(event.ready());
  int rings = 0;
  event.on_ready([&] { ++rings; });
  event.fail(std::make_shared<const Error>(ErrorKind::kLost, "gone"));
  event.on_ready([&] { ++rings; });
  EXPECT_EQ(rings, 2);
  ASSERT_NE(event.error(), nullptr);
  EXPECT_EQ(event.error()->kind(), ErrorKind::kLost);
}

TEST_P(DeviceSuite, MemoryIsAccountedExactlyAndRefusalsSayWhatIsShort) {
  DeviceMemory& memory = device->memory();
  {
    BufferPtr buffer = allocate_buffer(memory, 1000, "weights");
    EXPECT_EQ(memory.in_use(), 1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kDeviceAlignment, 0u);
    Result<std::byte*> refused = memory.allocate(kBytes, "activations");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(refused.error().what(), HasSubstr("activations"));
    EXPECT_THAT(refused.error().what(), HasSubstr(device->name()));
    EXPECT_THAT(refused.error().what(), HasSubstr("1000 B short"));
    EXPECT_EQ(memory.in_use(), 1000);
  }
  EXPECT_EQ(memory.in_use(), 0);
  EXPECT_EQ(memory.peak(), 1000);
}

TEST_P(DeviceSuite, CopiesAreOrderedWithTheWorkAroundThem) {
  BufferPtr buffer = allocate_buffer(device->memory(), 16, "test");
  HostArray<int32_t> in(device->memory(), {1, 2, 3, 4}), out(device->memory(), {0, 0, 0, 0});
  enqueue([&](Turn& turn) {
    turn.stream.copy(buffer->data(), in.data(), 16);
    return Progress::kDone;
  });
  enqueue([&](Turn& turn) {
    turn.stream.copy(out.data(), buffer->data(), 16);
    return Progress::kDone;
  });
  drain();
  EXPECT_THAT(out.values(), ElementsAre(1, 2, 3, 4));
}

// The middle column of three, and back into the first.
TEST_P(DeviceSuite, RowsAreCopiedFromStepToStep) {
  constexpr int64_t kItem = sizeof(int32_t);
  BufferPtr buffer = allocate_buffer(device->memory(), 2 * kItem, "test");
  HostArray<int32_t> in(device->memory(), {1, 2, 3, 4, 5, 6});
  HostArray<int32_t> out(device->memory(), {0, 0, 0, 0, 0, 0});
  const auto bytes = [](auto* data) { return reinterpret_cast<std::byte*>(data); };
  enqueue([&](Turn& turn) {
    turn.stream.copy_rows({.to = buffer->data(),
                           .to_step = kItem,
                           .from = bytes(in.data() + 1),
                           .from_step = 3 * kItem,
                           .bytes = kItem,
                           .rows = 2});
    turn.stream.copy_rows({.to = bytes(out.data()),
                           .to_step = 3 * kItem,
                           .from = buffer->data(),
                           .from_step = kItem,
                           .bytes = kItem,
                           .rows = 2});
    return Progress::kDone;
  });
  drain();
  EXPECT_THAT(out.values(), ElementsAre(2, 0, 0, 5, 0, 0));
}

TEST_P(DeviceSuite, ACompiledFunctionRunsItsStepsInItsArena) {
  Builder b("f");
  Value x = b.parameter("x", f32({2, 3}));
  b.result("y", dot(x, transpose(x)) + 1.0);
  auto compiled = compile(device->compiler(), b.build());
  BufferPtr in = allocate_buffer(device->memory(), 24, "x"),
            out = allocate_buffer(device->memory(), 16, "y");
  BufferPtr arena = allocate_buffer(device->memory(), compiled->arena_bytes(), "arena");
  HostArray<float> x_values(device->memory(), {1, 2, 3, 4, 5, 6}),
      y(device->memory(), {0, 0, 0, 0});
  CallFrame frame{.bases = {in->data(), out->data(), arena->data()}, .end = compiled->step_count()};
  enqueue([&](Turn& turn) {
    if (frame.step == 0 && !frame.begun) turn.stream.copy(in->data(), x_values.data(), 24);
    if (compiled->advance(frame, turn) == Progress::kPending) return Progress::kPending;
    turn.stream.copy(y.data(), out->data(), 16);
    return Progress::kDone;
  });
  drain();
  EXPECT_THAT(y.values(), ElementsAre(15, 33, 33, 78));
}

TEST_P(DeviceSuite, APoisonedFrameSkipsItsKernels) {
  Builder b("f");
  Value x = b.parameter("x", f32());
  b.result("y", timed(x + 1.0, 10));
  auto compiled = compile(device->compiler(), b.build());
  BufferPtr in = allocate_buffer(device->memory(), 4, "x"),
            out = allocate_buffer(device->memory(), 4, "y");
  BufferPtr arena = allocate_buffer(device->memory(), compiled->arena_bytes(), "arena");
  CallFrame frame{.bases = {in->data(), out->data(), arena->data()},
                  .end = compiled->step_count(),
                  .poisoned = true};
  HostArray<float> y(device->memory(), {-7});
  enqueue([&](Turn& turn) {
    if (frame.step == 0) turn.stream.copy(out->data(), y.data(), 4);
    if (compiled->advance(frame, turn) == Progress::kPending) return Progress::kPending;
    turn.stream.copy(y.data(), out->data(), 4);
    return Progress::kDone;
  });
  drain();
  EXPECT_THAT(y.values(), ElementsAre(-7));
}

TEST_P(DeviceSuite, ATimedStepKeepsTheDeviceBusyForItsTime) {
  Builder b("f");
  b.result("y", timed(b.parameter("x", f32()), 3000));
  auto compiled = compile(device->compiler(), b.build());
  BufferPtr data = allocate_buffer(device->memory(), 64, "all");
  CallFrame frame{.bases = {data->data(), data->data() + 16, data->data() + 32},
                  .end = compiled->step_count()};
  const int64_t begin_ns = device->stream().now_ns();
  int64_t end_ns = 0;
  enqueue([&](Turn& turn) { return compiled->advance(frame, turn); });
  enqueue([&](Turn& turn) {
    end_ns = turn.stream.now_ns();
    return Progress::kDone;
  });
  drain();
  EXPECT_GE(end_ns - begin_ns, 3'000'000);
}

TEST_P(DeviceSuite, ADyingDeviceDropsWhatHasNotRun) {
  auto ran = std::make_shared<std::atomic<bool>>(false);
  enqueue([](Turn&) { return Progress::kPending; });
  enqueue([ran](Turn&) {
    *ran = true;
    return Progress::kDone;
  });
  device.reset();
  EXPECT_FALSE(*ran);
  EXPECT_EQ(ran.use_count(), 1);
}

TEST_P(DeviceSuite, InfinityAndNanAreNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  HostArray<float> values(device->memory(), {1, -2, 1, inf, nan, 1});
  HostArray<uint32_t> flags(device->memory(), {0, 0, 0});
  BufferPtr data = allocate_buffer(device->memory(), values.bytes(), "data");
  enqueue([&](Turn& turn) {
    turn.stream.copy(data->data(), values.data(), values.bytes());
    for (int64_t i = 0; i < 3; ++i)
      turn.stream.check_finite(DType::kF32, data->data() + 8 * i, 2, flags.data() + i);
    return Progress::kDone;
  });
  drain();
  EXPECT_THAT(flags.values(), ElementsAre(0, 1, 1));
}

TEST_P(DeviceSuite, OneValueOfManyThatIsNotFiniteIsFound) {
  std::vector<float> many(20'001, 1.0f);
  HostArray<float> finite(device->memory(), many);
  many.back() = std::numeric_limits<float>::infinity();
  HostArray<float> last(device->memory(), many);
  std::fill(many.begin(), many.end(), std::numeric_limits<float>::quiet_NaN());
  HostArray<float> all(device->memory(), many);
  HostArray<uint32_t> flags(device->memory(), {0, 0, 0});
  BufferPtr data = allocate_buffer(device->memory(), finite.bytes(), "data");
  enqueue([&](Turn& turn) {
    uint32_t* flag = flags.data();
    for (HostArray<float>* values : {&finite, &last, &all}) {
      turn.stream.copy(data->data(), values->data(), values->bytes());
      turn.stream.check_finite(DType::kF32, data->data(), 20'001, flag++);
    }
    return Progress::kDone;
  });
  drain();
  EXPECT_THAT(flags.values(), ElementsAre(0, 1, 1));
}

TEST_P(DeviceSuite, AMarkIsReachedOnceWhatWasStartedBeforeItIsDone) {
  HostArray<int32_t> in(device->memory(), {5, 6}), out(device->memory(), {0, 0});
  BufferPtr data = allocate_buffer(device->memory(), 8, "data");
  Mark mark = 0;
  bool marked = false;
  std::vector<int32_t> seen;
  enqueue([&](Turn& turn) {
    if (!marked) {
      turn.stream.copy(data->data(), in.data(), 8);
      turn.stream.copy(out.data(), data->data(), 8);
      mark = turn.stream.mark();
      marked = true;
    }
    std::shared_ptr<const Error> failure;
    if (turn.stream.reached(mark, &failure) == Progress::kPending) return Progress::kPending;
    EXPECT_EQ(failure, nullptr);
    seen = out.values();
    return Progress::kDone;
  });
  drain();
  EXPECT_THAT(seen, ElementsAre(5, 6));
}

}  // namespace
}  // namespace gangway
