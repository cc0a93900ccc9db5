#include "runtime/fibers/future.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <kj/exception.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/error_of.h"

namespace gangway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class FutureTest : public testing::Test {
 protected:
  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
};

TEST_F(FutureTest, AwaitSuspendsUntilTheValueIsSet) {
  Promise<int> promise;
  Fiber setter = reactor_->spawn("setter", [&] {
    reactor_->clock().sleep_for(1ms);
    promise.set(3);
  });
  EXPECT_EQ(promise.future().await(), 3);
  EXPECT_EQ(reactor_->run([&] { return promise.future().await(); }), 3);
  setter.join();
}

TEST_F(FutureTest, ErrorTravelsThroughAChainWithoutCallingItsFunctions) {
  Promise<int> promise;
  int calls = 0;
  Future<void> end =
      promise.future().then([&](int v) { return ++calls + v; }).then([&](int) { ++calls; });
  promise.fail(Error(ErrorKind::kLost, "device died"));
  EXPECT_EQ(error_text_of([&] { end.await(); }), "lost: device died");
  EXPECT_EQ(calls, 0);
}

TEST_F(FutureTest, ThenFlattensAFutureAndCatchesWhatItsFunctionThrows) {
  Promise<int> first;
  Promise<std::string> second;
  Future<std::string> flat = first.future().then([&](int) { return second.future(); });
  Future<int> thrown = first.future().then([](int) -> int { throw Error(ErrorKind::kBug, "x"); });
  first.set(1);
  EXPECT_FALSE(flat.ready());
  second.set("done");
  EXPECT_EQ(flat.await(), "done");
  EXPECT_EQ(error_text_of([&] { thrown.await(); }), "bug: x");
}

TEST_F(FutureTest, ContinuationsRunInTheOrderOfTheirRegistration) {
  Promise<void> promise;
  std::string order;
  promise.future().on_ready([&](const auto&) { order += "a"; });
  promise.future().on_ready([&](const auto&) { order += "b"; });
  promise.set();
  promise.future().on_ready([&](const auto&) { order += "c"; });
  EXPECT_EQ(order, "abc");
}

TEST_F(FutureTest, DroppingAnUnsetPromiseFailsItsFuture) {
  Future<int> future;
  {
    Promise<int> promise;
    future = promise.future();
  }
  EXPECT_THAT(error_text_of([&] { future.await(); }), HasSubstr("dropped without a value"));
}

TEST_F(FutureTest, AwaitEndsAtItsTimeLimitOrWhenItsTokenIsStopped) {
  Promise<int> promise;
  EXPECT_THAT(error_text_of([&] { promise.future().await_until_ns(1'000); }),
              HasSubstr("cancelled: future: not ready"));
  EXPECT_EQ(reactor_->clock().now_ns(), 1'000);
  StopSource stop;
  Fiber stopper = reactor_->spawn(
      "stopper", [&] { stop.request_stop(Error(ErrorKind::kOverloaded, "enough")); });
  EXPECT_EQ(error_text_of([&] { promise.future().await(stop.token()); }), "overloaded: enough");
  stopper.join();
  promise.set(1);
}

TEST_F(FutureTest, CarriesMoveOnlyValues) {
  Promise<std::unique_ptr<int>> promise;
  Future<std::unique_ptr<int>> future = promise.future();
  promise.set(std::make_unique<int>(5));
  EXPECT_EQ(*future.take(), 5);
}

TEST_F(FutureTest, ManyFibersAwaitOneFuture) {
  Promise<int> promise;
  int sum = 0;
  std::vector<Fiber> fibers;
  for (int i = 0; i < 1000; ++i)
    fibers.push_back(reactor_->spawn("reader", [&] { sum += promise.future().await(); }));
  reactor_->run_ready();
  promise.set(2);
  for (Fiber& fiber : fibers) fiber.join();
  EXPECT_EQ(sum, 2000);
}

TEST(StopToken, CallsBackOnceAndNotAfterItsRegistrationEnds) {
  StopSource source;
  int calls = 0;
  StopRegistration kept = source.token().on_stop([&](const Error&) { ++calls; });
  {
    StopRegistration ended = source.token().on_stop([&](const Error&) { calls += 100; });
  }
  source.request_stop();
  source.request_stop();
  StopRegistration late = source.token().on_stop([&](const Error&) { calls += 10; });
  EXPECT_EQ(calls, 11);
  EXPECT_FALSE(StopToken().stop_requested());
}

TEST_F(FutureTest, WhateverAFunctionThrowsBecomesTheFuturesError) {
  const auto outcome = [this](auto thrown) {
    Promise<int> promise;
    const Future<int> next = promise.future().then([thrown](int) -> int { throw thrown; });
    promise.set(1);
    return error_text_of([&] { reactor_->run([&] { next.await(); }); });
  };
  EXPECT_THAT(outcome(std::bad_alloc()), HasSubstr("overloaded: out of memory"));
  EXPECT_THAT(outcome(std::domain_error("odd")), HasSubstr("unexpected exception: odd"));
  EXPECT_THAT(outcome(7), HasSubstr("unexpected exception of an unknown type"));
  EXPECT_THAT(outcome(kj::Exception(kj::Exception::Type::DISCONNECTED, "f", 1, kj::str("cut"))),
              HasSubstr("connection: lost: cut"));
}

}  // namespace
}  // namespace gangway
