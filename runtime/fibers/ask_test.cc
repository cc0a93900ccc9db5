#include "runtime/fibers/ask.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/fibers/await.h"

namespace gangway {
namespace {

TEST(Ask, RunsAFiberOnTheReactorAndReturnsItsResult) {
  ReactorThread thread("reactor");
  EXPECT_EQ(thread.ask("add",
                       [] {
                         Reactor::current().clock().sleep_for(std::chrono::milliseconds(1));
                         return 3;
                       }),
            3);
  EXPECT_THROW(thread.ask("fail", [] { throw Error(ErrorKind::kLost, "gone"); }), Error);
}

TEST(Ask, ServesManyThreads) {
  ReactorThread reactor("reactor");
  int sum = 0;  // The reactor's thread only.
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("asker", [&] {
      for (int i = 0; i < 500; ++i) reactor.ask("add", [&] { ++sum; });
    });
  }
  threads.clear();
  EXPECT_EQ(reactor.ask("read", [&] { return sum; }), 2000);
}

TEST(Ask, ACallThatWaitsForEverIsCancelledWhenTheReactorEnds) {
  auto reactor = std::make_unique<ReactorThread>("reactor");
  std::optional<ErrorKind> kind;
  Promise<void>* never = nullptr;
  std::promise<void> waiting;
  Thread asker("asker", [&, &mailbox = reactor->mailbox()] {
    try {
      ask(mailbox, "wait", [&] {
        Promise<void> promise;
        never = &promise;
        waiting.set_value();
        promise.future().await();
      });
    } catch (const Error& error) {
      kind = error.kind();
    }
  });
  waiting.get_future().wait();
  reactor.reset();
  asker.join();
  EXPECT_EQ(kind, ErrorKind::kCancelled);
}

TEST(Await, GivesAKjPromisesValueOrItsErrorToAFiber) {
  auto reactor = Reactor::make_real();
  EXPECT_EQ(reactor->run([] { return await(kj::evalLater([] { return 4; })); }), 4);
  const Error sent(ErrorKind::kOverloaded, "memory: full", {.host = "h3"}, "wait");
  kj::Promise<void> failed = to_kj(sent);
  try {
    await(kj::mv(failed));
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), sent.what());
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_EQ(error.where().host, "h3");
  }
}

TEST(Await, AnErrorOfAnyKindKeepsItsKindOnItsWayThroughKj) {
  for (const ErrorKind kind :
       {ErrorKind::kInvalid, ErrorKind::kUnavailable, ErrorKind::kOverloaded, ErrorKind::kOverflow,
        ErrorKind::kCancelled, ErrorKind::kLost, ErrorKind::kUnimplemented, ErrorKind::kBug})
    EXPECT_EQ(to_error(to_kj(Error(kind, "ended"))).kind(), kind) << to_string(kind);
}

TEST(Await, CancellingTheFiberCancelsTheKjOperation) {
  auto reactor = Reactor::make_simulated();
  bool dropped = false;
  Fiber fiber = reactor->spawn("waiter", [&] {
    await(kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([&] { dropped = true; })));
  });
  reactor->run_ready();
  fiber.cancel();
  EXPECT_THROW(fiber.join(), Error);
  EXPECT_TRUE(dropped);
}

}  // namespace
}  // namespace gangway
