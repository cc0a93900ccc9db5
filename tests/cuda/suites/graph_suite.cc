#include <atomic>
#include <cmath>

#include "executor/devices/cuda/cuda_device.h"
#include "executor/devices/task.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
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

void enqueue_and_wait(Reactor& reactor, CudaDevice& device,
                      const std::function<Progress(Turn&)>& work) {
  std::atomic<bool> done{false};
  enqueue_task(device, work, [&](const std::shared_ptr<const Error>& error) {
    EXPECT_EQ(error, nullptr) << error->what();
    reactor.mailbox().post([&done] { done = true; });
  });
  reactor.run_until([&] { return done.load(); });
}

TEST_P(CardGraphs, CommandsThatComeAgainWithTheirAddressesAreReplayedAsOneGraph) {
  const Card card = GetParam().make();
  const auto reactor = Reactor::make_real();
  {
    CudaDevice device({.name = "cuda-0",
                       .memory_bytes = 1 << 20,
                       .gpu = std::make_shared<cuda::Gpu>(card.driver)});
    const auto function = chain();
    const auto compiled =
        device.compile({function, static_cast<NodeId>(function->nodes.size()), {}, kNone});
    const BufferPtr buffer = allocate_buffer(device.memory(), 512 + compiled->arena_bytes(), "f");
    const HostMemory host = device.host_memory(32);
    auto* const values = reinterpret_cast<float*>(host.get());
    for (int run = 0; run < 5; ++run) {
      device.host_access(HostAccess::kWrite, values, 32);
      std::fill_n(values, 4, static_cast<float>(run));
      CallFrame frame{.bases = {buffer->data(), buffer->data() + 256, buffer->data() + 512},
                      .end = compiled->step_count()};
      enqueue_and_wait(*reactor, device, [&](Turn& turn) {
        device.copy(frame.bases[0], values, 16);
        EXPECT_EQ(compiled->advance(frame, turn), Progress::kDone);
        device.copy(values + 4, frame.bases[1], 16);
        return Progress::kDone;
      });
      device.host_access(HostAccess::kRead, values + 4, 16);
      const float at = static_cast<float>(run);
      EXPECT_NEAR(values[4], std::exp(at) * 2 - std::tanh(at), 1e-4);
    }
    EXPECT_EQ(device.graphs().launches(), 4u);
  }
  EXPECT_EQ(card.report(), "");
}

}  // namespace
}  // namespace gangway
