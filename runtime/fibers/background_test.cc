#include "runtime/fibers/background.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "runtime/fibers/clock.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

TEST(Background, TheReactorGoesOnWhileWorkIsDone) {
  const auto reactor = Reactor::make_real();
  Background background(*reactor, "work", 1);
  std::latch may_end(1);
  const std::string where = reactor->run([&] {
    // Only the reactor, which is free, can let the work end.
    Fiber other = reactor->spawn("other", [&] { may_end.count_down(); });
    std::string name = background.run([&] {
      may_end.wait();
      return thread_name();
    });
    other.join();
    return name;
  });
  EXPECT_EQ(where, "work");
}

TEST(Background, PiecesOfWorkRunOnAllThreadsAndOnNoMore) {
  const auto reactor = Reactor::make_real();
  Background background(*reactor, "work", 2);
  std::latch both(2);
  const auto meet = [&] { both.arrive_and_wait(); };
  reactor->run([&] {
    Fiber other = reactor->spawn("other", [&] { background.run(meet); });
    background.run(meet);
    other.join();
  });
  std::atomic<int> under_way = 0, most = 0;
  reactor->run([&] {
    std::vector<Fiber> fibers;
    for (int i = 0; i < 20; ++i) {
      fibers.push_back(reactor->spawn("one", [&] {
        background.run([&] {
          const int now = ++under_way;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
          --under_way;
        });
      }));
    }
    for (Fiber& fiber : fibers) fiber.join();
  });
  EXPECT_LE(most, 2);
}

TEST(Background, ErrorsComeBack) {
  const auto reactor = Reactor::make_real();
  Background background(*reactor, "work", 1);
  reactor->run([&] {
    EXPECT_THAT(error_text_of([&] { background.run([] { GW_REQUIRE(false, "no good"); }); }),
                testing::HasSubstr("no good"));
  });
}

TEST(Background, AFiberThatIsCancelledDoesNotWaitForItsWork) {
  const auto reactor = Reactor::make_real();
  std::latch may_end(1), has_begun(1);
  auto ended = std::make_shared<std::atomic<bool>>(false);
  {
    Background background(*reactor, "work", 1);
    reactor->run([&] {
      bool came_back = false;
      Fiber waiting = reactor->spawn("waiting", [&] {
        try {
          background.run([&, ended] {
            has_begun.count_down();
            may_end.wait();
            *ended = true;
          });
        } catch (const Error& error) {
          came_back = error.kind() == ErrorKind::kCancelled;
        }
      });
      reactor->spawn("let it begin", [] {}).join();
      has_begun.wait();
      waiting.cancel();
      waiting.join();
      EXPECT_TRUE(came_back);
      EXPECT_FALSE(*ended);
      may_end.count_down();
    });
  }
  EXPECT_TRUE(*ended) << "stop() waits for what is under way";
}

// Stops a thread that ends a first piece of work while a second one waits. Returns whether the
// second one was dropped; its caller must have heard of that, and of nothing else.
bool drops_the_second_piece() {
  const auto reactor = Reactor::make_real();
  auto background = std::make_unique<Background>(*reactor, "work", 1);
  std::latch may_end(1), has_begun(1);
  std::atomic<bool> has_run = false;
  reactor->run([&] {
    Fiber first = reactor->spawn("first", [&] {
      background->run([&] {
        has_begun.count_down();
        may_end.wait();
      });
    });
    std::string error;
    Fiber second = reactor->spawn("second", [&] {
      error = error_text_of([&] { background->run([&] { has_run = true; }); });
    });
    reactor->spawn("let both be asked for", [] {}).join();
    has_begun.wait();
    may_end.count_down();
    background->stop();
    first.join();
    second.join();
    EXPECT_EQ(error.find("work: has ended") != std::string::npos, !has_run) << error;
  });
  return !has_run;
}

// The thread may take the second piece before it hears of the end.
TEST(Background, WorkThatHasNotBegunIsDroppedAtTheEnd) {
  bool is_dropped = false;
  for (int round = 0; round < 100 && !is_dropped; ++round) is_dropped = drops_the_second_piece();
  EXPECT_TRUE(is_dropped);
}

// Asks for one piece of work for each owner in `pieces`, in that order, while the only thread is
// busy with a first piece of ann's. Returns the order in which the pieces were done.
std::vector<std::string> order_of(const std::vector<std::string>& pieces) {
  const auto reactor = Reactor::make_real();
  Background background(*reactor, "work", 1);
  std::latch may_end(1);
  std::vector<std::string> order;
  reactor->run([&] {
    std::vector<Fiber> fibers;
    fibers.push_back(
        reactor->spawn("first", [&] { background.run("ann", [&] { may_end.wait(); }); }));
    for (const std::string& owner : pieces) {
      fibers.push_back(reactor->spawn("one", [&background, &order, owner] {
        background.run(owner, [&order, owner] { order.push_back(owner); });
      }));
    }
    reactor->spawn("all are asked for", [&] { may_end.count_down(); }).join();
    for (Fiber& fiber : fibers) fiber.join();
  });
  return order;
}

TEST(Background, OwnersTakeTurnsHoweverMuchOneOfThemAsksFor) {
  EXPECT_THAT(order_of({"ann", "ann", "ann", "ann", "bob", "bob", "carl"}),
              testing::ElementsAre("bob", "carl", "ann", "bob", "ann", "ann", "ann"));
  EXPECT_THAT(order_of({"bob", "ann", "ann"}), testing::ElementsAre("bob", "ann", "ann"));
}

TEST(Background, OneOwnerNeverHoldsAllThreads) {
  const auto reactor = Reactor::make_real();
  Background background(*reactor, "work", {.threads_max = 2, .of_one_owner_max = 1});
  std::latch may_end(1);
  std::atomic<int> of_ann = 0;
  reactor->run([&] {
    std::vector<Fiber> fibers;
    for (int i = 0; i < 8; ++i) {
      fibers.push_back(reactor->spawn("ann", [&] {
        background.run("ann", [&] {
          ++of_ann;
          may_end.wait();
        });
      }));
    }
    reactor->spawn("let ann begin", [] {}).join();
    for (int i = 0; i < 3; ++i) background.run("bob", [] {});  // Or this test never ends.
    EXPECT_LE(of_ann, 1);
    may_end.count_down();
    for (Fiber& fiber : fibers) fiber.join();
    EXPECT_EQ(of_ann, 8);
  });
}

TEST(Background, ASimulationDoesTheWorkItself) {
  const auto reactor = Reactor::make_simulated();
  Background background(*reactor, "work", 1);
  reactor->run(
      [&] { EXPECT_EQ(background.run([] { return Reactor::current_or_null(); }), reactor.get()); });
}

}  // namespace
}  // namespace gangway
