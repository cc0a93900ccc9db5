// Measures the primitives of the reactor. Why: control logic is written in them. How to read it: ns
// per operation on one thread. Budget: fiber create and join 0.5 us, park and wake 0.15 us, virtual
// sleep 1 us, mail 0.1 us.
#include "runtime/fibers/reactor.h"

#include <benchmark/benchmark.h>

#include "runtime/fibers/future.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {
namespace {

void BM_SpawnAndJoin(benchmark::State& state) {
  auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    for (auto _ : state) reactor->spawn("f", [] {}).join();
  });
}
BENCHMARK(BM_SpawnAndJoin);

void BM_ParkAndWake(benchmark::State& state) {
  auto reactor = Reactor::make_simulated();
  WaitQueue ping, pong;
  bool stop = false;
  Fiber other = reactor->spawn("pong", [&] {
    while (!stop) {
      ping.wait("for ping");
      pong.wake_one();
    }
  });
  reactor->run([&] {
    reactor->clock().sleep_for(Duration(1));
    for (auto _ : state) {
      ping.wake_one();
      pong.wait("for pong");
    }
    stop = true;
    ping.wake_one();
  });
  other.join();
}
BENCHMARK(BM_ParkAndWake);

void BM_VirtualSleep(benchmark::State& state) {
  auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    for (auto _ : state) reactor->clock().sleep_for(Duration(1));
  });
}
BENCHMARK(BM_VirtualSleep);

void BM_PromiseSetAndAwait(benchmark::State& state) {
  auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    for (auto _ : state) {
      Promise<int> promise;
      Future<int> future = promise.future();
      promise.set(1);
      benchmark::DoNotOptimize(future.await());
    }
  });
}
BENCHMARK(BM_PromiseSetAndAwait);

void BM_MailToSelf(benchmark::State& state) {
  auto reactor = Reactor::make_simulated();
  int count = 0;
  for (auto _ : state) {
    reactor->mailbox().post([&] { ++count; });
    reactor->run_ready();
  }
}
BENCHMARK(BM_MailToSelf);

}  // namespace
}  // namespace gangway
