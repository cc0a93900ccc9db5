#include "controller/plans/source_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "protocol/recovery_options.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway::source_texts_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const SourceText kWhole{"books", 100, "aa"}, kGrown{"books", 120, "bb"}, kOther{"books", 100, "cc"};

const Error kNoRoom(ErrorKind::kOverloaded,
                    "text \"books\": owner \"ada\" has all that it may have of the host's memory");

// Answer of a host whose file has grown from kWhole to kGrown.
SourceText read_grown(const std::vector<SourceText>& fixed) {
  return fixed.empty() ? kGrown : kWhole;
}
SourceText read_whole(const std::vector<SourceText>&) { return kWhole; }
SourceText read_other(const std::vector<SourceText>&) { return kOther; }

Program counting() {
  ProgramBuilder b("counting", Mesh{{{"data", 4}}});
  const Value w = b.state("w", zeros(f32({4})), {{"data", shard(0)}});
  b.update(w, w + 1.0);
  b.output("sum", sum(w));
  return b.build();
}

// Four hosts with two devices each.
class SourceTextsTest : public testing::Test {
 protected:
  SourceTextsTest() {
    for (int h = 0; h < 4; ++h) {
      executor_[h].read_text = read_whole;
      hosts_.push_back(controller_.add_host(
          {.name = cat("host-", h), .devices = 2, .memory_bytes = kMemory}, executor_[h]));
    }
  }
  PlanId compile() {
    slice_ = controller_.allocate(session_, {4}).id;
    return controller_.compile(session_, counting(), {slice_}, {}).id;
  }
  bool lies_on(PlanId plan, int host) {
    const PlanRecord& now = controller_.tables().plans.at(plan, session_);
    return now.ready && !now.broken &&
           std::ranges::find(now.hosts, hosts_[static_cast<size_t>(host)]) != now.hosts.end();
  }
  // The first one of hosts 2 and 3 that is asked has no room, once. `meanwhile` is told the other.
  void refuse_once(int& first, const std::function<void(int other)>& meanwhile) {
    for (const int host : {2, 3}) {
      executor_[host].refuses = [&first, host, meanwhile]() -> std::optional<Error> {
        if (first >= 0) return std::nullopt;
        first = host;
        meanwhile(5 - host);
        return kNoRoom;
      };
    }
  }
  // The program loses a host, and comes back on the one that is named here by then.
  void expect_back_on(const int& host) {
    const PlanId plan = compile();
    controller_.keep_checkpoints(session_, slice_, {.every = 10});
    controller_.host_lost(hosts_[0], Error(ErrorKind::kUnavailable, "its connection ended"));
    for (int i = 0; i < 1000 && times_reported("the program goes on on") == 0; ++i) pass_ms(1);
    ASSERT_GE(host, 0);
    EXPECT_TRUE(lies_on(plan, host));
    EXPECT_EQ(times_reported("the program goes on on"), 1);
    EXPECT_EQ(times_reported("can't be brought back"), 0);
  }
  void pass_ms(int64_t ms) {
    WaitQueue().wait_until_ns("for the program", reactor_->clock().now_ns() + ms * 1'000'000);
  }
  // Number of lines with this text that its user was told.
  int64_t times_reported(const std::string& text) const {
    return std::ranges::count_if(client_.warnings(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

  static constexpr int64_t kMemory = 1 << 20;  // Bytes of each device.

  const TempDir folder_;
  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executor_[4];
  FakeClient client_;
  Controller controller_{*reactor_, {.checkpoint_folder = folder_.path().string()}};
  std::vector<HostId> hosts_;
  SessionId session_ = controller_.programs().add("client", "ada", client_);
  SliceId slice_;
};

TEST_F(SourceTextsTest, AHostWithAnotherTextIsRefusedAndBothAreNamed) {
  reactor_->run([&] {
    executor_[1].read_text = read_other;
    const Error error = error_of([&] { compile(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(),
                HasSubstr("\"books\" is another text on host \"host-1\" than the program was "
                          "installed with: expected 100 bytes with the BLAKE2b hash aa, as on host "
                          "\"host-0\", got 100 bytes with the BLAKE2b hash cc"));
    EXPECT_EQ(controller_.counts().plans, 0u);
  });
}

TEST_F(SourceTextsTest, ATextThatGrowsWhileHostsReadItIsReadToTheShortestByAll) {
  reactor_->run([&] {
    executor_[0].read_text = read_grown;
    compile();
    for (const int host : {0, 1}) {
      EXPECT_EQ(executor_[host].installs, 2);
      EXPECT_THAT(executor_[host].texts_asked, ElementsAre(kWhole));
    }
  });
}

TEST_F(SourceTextsTest, AProgramThatLosesAHostIsBroughtBackWhereItsTextIsTheSame) {
  reactor_->run([&] {
    const PlanId plan = compile();
    controller_.keep_checkpoints(session_, slice_, {.every = 10});
    // Whichever is asked first has another text.
    int first = -1;
    for (const int host : {2, 3}) {
      executor_[host].read_text = [&first, host](const std::vector<SourceText>& fixed) {
        EXPECT_THAT(fixed, ElementsAre(kWhole));
        if (first < 0) first = host;
        return first == host ? kOther : kWhole;
      };
    }
    controller_.host_lost(hosts_[0], Error(ErrorKind::kUnavailable, "its connection ended"));
    for (int i = 0; i < 100 && (first < 0 || !lies_on(plan, 5 - first)); ++i) pass_ms(1);
    ASSERT_GE(first, 0);
    EXPECT_TRUE(lies_on(plan, 5 - first));
    EXPECT_FALSE(lies_on(plan, first));
  });
}

TEST_F(SourceTextsTest, AProgramThatLosesAHostIsBroughtBackWhereItsTextHasRoom) {
  reactor_->run([&] {
    const PlanId plan = compile();
    controller_.keep_checkpoints(session_, slice_, {.every = 10});
    // Whichever is asked first has no memory left for texts of this owner.
    int first = -1;
    for (const int host : {2, 3}) {
      executor_[host].refuses = [&first, host] {
        if (first < 0) first = host;
        return first == host ? std::optional(kNoRoom) : std::nullopt;
      };
    }
    controller_.host_lost(hosts_[0], Error(ErrorKind::kUnavailable, "its connection ended"));
    for (int i = 0; i < 100 && (first < 0 || !lies_on(plan, 5 - first)); ++i) pass_ms(1);
    ASSERT_GE(first, 0);
    EXPECT_TRUE(lies_on(plan, 5 - first));
    EXPECT_EQ(executor_[first].installs, 1);
    EXPECT_EQ(times_reported("waits for room"), 0);
  });
}

TEST_F(SourceTextsTest, AProgramWhoseTextHasRoomNowhereWaitsForSome) {
  reactor_->run([&] {
    const PlanId plan = compile();
    controller_.keep_checkpoints(session_, slice_, {.every = 10});
    bool is_full = true;
    for (FakeExecutor& executor : executor_)
      executor.refuses = [&is_full] { return is_full ? std::optional(kNoRoom) : std::nullopt; };
    controller_.host_lost(hosts_[0], Error(ErrorKind::kUnavailable, "its connection ended"));
    pass_ms(20'000);
    const int tried = executor_[3].installs;
    EXPECT_GE(tried, 5);
    EXPECT_LE(tried, 30) << "pauses grow";
    EXPECT_EQ(times_reported("the program that lost a host waits for room: text \"books\""), 1);
    EXPECT_LE(times_reported("is tried on other hosts"), 3);
    for (const ProgramCounts& program : controller_.program_counts())
      EXPECT_EQ(program.waits_for, "") << "it waits for memory";
    is_full = false;
    pass_ms(20'000);
    EXPECT_TRUE(controller_.tables().plans.at(plan, session_).ready);
    EXPECT_FALSE(controller_.tables().plans.at(plan, session_).broken);
    EXPECT_EQ(times_reported("the program goes on on"), 1);
  });
}

// Whichever host is asked first has no room for the text that once.
TEST_F(SourceTextsTest, AProgramThatIsTooLargeForTheOtherHostGoesBackToOneThatHadNoRoom) {
  reactor_->run([&] {
    int first = -1;
    refuse_once(first, [this](int other) { executor_[other].need_bytes = 2 * kMemory; });
    expect_back_on(first);
  });
}

TEST_F(SourceTextsTest, AProgramThatFindsTheOtherHostFullGoesBackToOneThatHadNoRoom) {
  reactor_->run([&] {
    int first = -1;
    refuse_once(first, [this](int other) {
      executor_[other].need_bytes = kMemory / 2;
      const HostId host = hosts_[static_cast<size_t>(other)];
      const std::vector<Reservation> held{{{host, 0, 2}, kMemory / 2 + 1}};
      EXPECT_FALSE(controller_.tables().hosts.reserve("another", held));
    });
    expect_back_on(first);
  });
}

// Its states were placed on the second host as well, which it has left by then.
TEST_F(SourceTextsTest, AProgramThatLiesNowhereLosesNoStatesWithASecondHost) {
  reactor_->run([&] {
    const PlanId plan = compile();
    controller_.keep_checkpoints(session_, slice_, {.every = 10});
    ASSERT_TRUE(lies_on(plan, 0) && lies_on(plan, 1));
    bool is_full = true;
    for (FakeExecutor& executor : executor_)
      executor.refuses = [&is_full] { return is_full ? std::optional(kNoRoom) : std::nullopt; };
    const Error why(ErrorKind::kUnavailable, "its connection ended");
    controller_.host_lost(hosts_[0], why);
    pass_ms(5'000);
    ASSERT_TRUE(controller_.tables().slices.at(slice_, session_).devices.empty());
    controller_.host_lost(hosts_[1], why);
    is_full = false;
    pass_ms(20'000);
    EXPECT_EQ(times_reported("goes on without its states"), 0);
    EXPECT_EQ(times_reported("the program goes on on"), 1);
    EXPECT_TRUE(lies_on(plan, 2) && lies_on(plan, 3));
    const Result<PlanId> again =
        result_of([&] { return controller_.compile(session_, counting(), {slice_}, {}).id; });
    EXPECT_TRUE(again.ok()) << again.error().what();
  });
}

}  // namespace
}  // namespace gangway::source_texts_test
