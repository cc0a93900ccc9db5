// Measures a frame of 200 bytes from one stream to another, and the cost of the acknowledgements at
// both ends. Why: every run is a few of them for each host. How to read it: time of one thread that
// runs both ends, for a batch of 1,000 frames, and for one frame and its answer. Budget: 1 us a
// frame in a batch at each end; two writes for a frame and its answer.
#include "runtime/net/frames.h"

#include <benchmark/benchmark.h>

#include "runtime/net/rpc_test.capnp.h"
#include "runtime/net/server.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

constexpr int kBatch = 1000;

Frame note() {
  capnp::MallocMessageBuilder message;
  message.initRoot<test::Note>().initText(150);
  return make_frame(message);
}

// Two streams over a Unix socket.
struct Streams {
  Streams()
      : there(*reactor, {.name = "client"}),
        server(*reactor, network, "unix:" + (dir.path() / "s").string(),
               {.frames_of = [this](uint64_t, const std::string&) { return &there; }}),
        here(connect_frames(*reactor, network, server.address(), 1)) {}

  TempDir dir;
  std::unique_ptr<Reactor> reactor = Reactor::make_real();
  SocketNetwork network{*reactor};
  FrameStream there;
  Server server;
  std::unique_ptr<FrameStream> here;
  const Frame frame = note();
};

void BM_Batch(benchmark::State& state) {
  Streams streams;
  int arrived = 0;
  streams.there.start([&](capnp::MessageReader&) { ++arrived; });
  streams.here->start([](capnp::MessageReader&) {});
  for (auto _ : state) {
    arrived = 0;
    for (int i = 0; i < kBatch; ++i) streams.here->send(streams.frame);
    streams.reactor->run_until([&] { return arrived == kBatch; });
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(BM_Batch);

void BM_ThereAndBack(benchmark::State& state) {
  Streams streams;
  uint64_t back = 0;
  streams.there.start([&](capnp::MessageReader&) { streams.there.send(streams.frame); });
  streams.here->start([&](capnp::MessageReader&) { ++back; });
  for (auto _ : state) {
    const uint64_t before = back;
    streams.here->send(streams.frame);
    streams.reactor->run_until([&] { return back > before; });
  }
  state.counters["writes"] =
      benchmark::Counter(static_cast<double>(streams.here->counts().writes.value() +
                                             streams.there.counts().writes.value()),
                         benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_ThereAndBack);

}  // namespace
}  // namespace gangway
