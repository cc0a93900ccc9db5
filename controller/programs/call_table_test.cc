#include "controller/programs/call_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "runtime/fibers/reactor.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CallTableTest : public testing::Test {
 protected:
  CallTable::Created make() { return SliceId(++made_); }
  // A call whose make() goes on when `begin_` is woken.
  Fiber slow(uint64_t number, std::vector<uint64_t>& reported) {
    return reactor_->spawn("call", [this, number, &reported] {
      try {
        const CallTable::Created created = calls_.once({number}, [this](const StopToken& stop) {
          begin_.wait("for the test");
          stop.throw_if_stopped();
          return make();
        });
        reported.push_back(std::get<SliceId>(created).value);
      } catch (const Error&) {
        reported.push_back(0);
      }
    });
  }
  // Suspends until all fibers wait.
  void settle() { WaitQueue().wait_until_ns("for a moment", reactor_->clock().now_ns() + 1000); }
  uint64_t once(uint64_t number, uint64_t releases = 0) {
    const auto created =
        calls_.once({number, releases}, [this](const StopToken&) { return make(); });
    return std::get<SliceId>(created).value;
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  uint64_t made_ = 0;
  std::vector<uint64_t> released_;
  CallTable calls_{[this](const CallTable::Created& created) {
    if (const auto* slice = std::get_if<SliceId>(&created)) released_.push_back(slice->value);
  }};
  WaitQueue begin_;
};

TEST_F(CallTableTest, ACallIsDoneOnceAndAnsweredEachTimeUntilItIsReleased) {
  reactor_->run([&] {
    EXPECT_EQ(once(7), 1u);
    EXPECT_EQ(once(8), 2u);
    EXPECT_EQ(once(7), 1u);
    calls_.release({7, 99});
    EXPECT_THAT(released_, ElementsAre(1));
    EXPECT_EQ(calls_.size(), 1u);
    calls_.release({8});
    EXPECT_EQ(calls_.size(), 0u);
  });
}

// The client learns from the result whether hosts still write to its memory.
TEST_F(CallTableTest, ACallThatIsReleasedWhileItRunsStillReturnsItsResult) {
  reactor_->run([&] {
    std::optional<CallTable::Created> created;
    Fiber reads = reactor_->spawn("read", [&] {
      created = calls_.once({7}, [this](const StopToken& stop) {
        begin_.wait("for the test");
        EXPECT_TRUE(stop.stop_requested());
        return StatesRead{.how = StatesRead::How::kFailed, .is_settled = true};
      });
    });
    settle();
    calls_.release({7});
    begin_.wake_all();
    reads.join();
    ASSERT_TRUE(created.has_value());
    EXPECT_EQ(std::get<StatesRead>(*created).how, StatesRead::How::kFailed);
    EXPECT_EQ(calls_.size(), 0u);
  });
}

TEST_F(CallTableTest, AWaitForAnotherCallEndsWithItsConnection) {
  reactor_->run([&] {
    std::vector<uint64_t> reported;
    std::vector<ErrorKind> ended;
    StopSource gone;
    const auto waits = [&](const std::function<void()>& body) {
      return reactor_->spawn("wait", [&, body] { ended.push_back(error_of(body).kind()); });
    };
    Fiber first = slow(7, reported);
    const auto not_again = [this](const StopToken&) { return make(); };
    Fiber again = waits([&] { calls_.once({7}, not_again, gone.token()); });
    Fiber behind = waits([&] { calls_.once({8, 99}, not_again, gone.token()); });
    Fiber releases = waits([&] { calls_.come_behind(99, gone.token()); });
    settle();
    gone.request_stop();
    settle();
    EXPECT_THAT(ended,
                ElementsAre(ErrorKind::kCancelled, ErrorKind::kCancelled, ErrorKind::kCancelled));
    begin_.wake_all();
    first.join();
    EXPECT_THAT(reported, ElementsAre(1)) << "what is made is for the client, over any connection";
  });
}

TEST_F(CallTableTest, CallsBeyondTheBoundAreRefusedWhileOthersAreUnderWay) {
  reactor_->run([&] {
    std::vector<uint64_t> reported;
    std::vector<Fiber> fibers;
    for (uint64_t i = 1; i <= CallTable::kUnderWayMax; ++i) fibers.push_back(slow(i, reported));
    settle();
    EXPECT_EQ(error_of([&] { once(5000); }).kind(), ErrorKind::kOverloaded);
    begin_.wake_all();
    for (Fiber& fiber : fibers) fiber.join();
    EXPECT_EQ(reported.size(), CallTable::kUnderWayMax);
    EXPECT_NE(once(5000), 0u);
  });
}

TEST_F(CallTableTest, ARepeatedCallGetsTheAnswerOfTheCallUnderWay) {
  reactor_->run([&] {
    std::vector<uint64_t> reported;
    Fiber first = slow(7, reported), second = slow(7, reported);
    settle();
    begin_.wake_all();
    first.join();
    second.join();
    EXPECT_THAT(reported, ElementsAre(1, 1));
    EXPECT_EQ(made_, 1u);
  });
}

TEST_F(CallTableTest, ACallThatFailedIsDoneAnewWhenItIsAskedAgain) {
  reactor_->run([&] {
    const Error error = error_of([&] {
      calls_.once({7}, [](const StopToken&) -> CallTable::Created {
        throw Error(ErrorKind::kOverloaded, "not now");
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_EQ(calls_.size(), 0u);
    EXPECT_EQ(once(7), 1u);
  });
}

TEST_F(CallTableTest, AReleaseStopsACallThatIsUnderWayOrThatComesLater) {
  reactor_->run([&] {
    std::vector<uint64_t> reported;
    Fiber call = slow(7, reported);
    settle();
    calls_.release({7});
    begin_.wake_all();
    call.join();
    EXPECT_THAT(reported, ElementsAre(0)) << "it was stopped";
    EXPECT_EQ(made_, 0u);
    calls_.release({9});
    EXPECT_EQ(error_of([&] { once(9); }).kind(), ErrorKind::kCancelled);
    EXPECT_THAT(released_, ElementsAre(1));
    EXPECT_EQ(calls_.size(), 0u);
  });
}

TEST_F(CallTableTest, ACallComesBehindTheReleasesThatItNames) {
  reactor_->run([&] {
    EXPECT_EQ(once(7), 1u);
    uint64_t second = 0;
    Fiber call = reactor_->spawn("call", [&] { second = once(8, 1); });
    settle();
    EXPECT_EQ(second, 0u);
    calls_.release({7});
    call.join();
    EXPECT_EQ(second, 2u);
  });
}

TEST_F(CallTableTest, CallsThatWaitFailWhenTheSessionIsClosed) {
  reactor_->run([&] {
    Error error(ErrorKind::kBug, "not thrown");
    Fiber call = reactor_->spawn("call", [&] { error = error_of([&] { once(8, 1); }); });
    settle();
    calls_.close();
    call.join();
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_EQ(error_of([&] { once(9); }).kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(released_, IsEmpty());
  });
}

}  // namespace
}  // namespace gangway
