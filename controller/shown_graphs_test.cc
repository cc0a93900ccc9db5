// Tests the inspection of a program: the timelines that its hosts send, and why it was compiled as
// it was.
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class ShownTimelinesTest : public ControllerTest {
 protected:
  ShownTimelinesTest() {
    for (FakeExecutor& executor : executor_) executor.telling.emplace();
  }
  // Asks for the timelines in a fiber, which runs until it waits.
  Fiber asking(PlanId plan) {
    Fiber fiber = reactor_->spawn("ask", [this, plan] {
      shown_ = controller_.shown_graphs().timeline(session_, {.plan = plan}, 100);
    });
    reactor_->run_ready();
    return fiber;
  }
  void tell(size_t host, const std::string& process) {
    executor_[host].telling->set({.names = nullptr, .trace = {.process = process}});
    reactor_->run_ready();
  }
  std::vector<std::string> reported() const {
    std::vector<std::string> names;
    for (const HostTimeline& host : shown_->hosts) names.push_back(host.trace.process);
    return names;
  }

  std::optional<ShownTimeline> shown_;
};

TEST_F(ShownTimelinesTest, EachHostIsAskedAtOnceAndCalledAsTheControllerCallsIt) {
  const PlanId plan = compile(session_);
  Fiber fiber = asking(plan);
  EXPECT_EQ(executor_[0].events_asked, 100u);
  EXPECT_EQ(executor_[1].events_asked, 100u);
  tell(1, "host-1");
  EXPECT_FALSE(shown_);
  tell(0, "host-1, as it says");
  fiber.join();
  ASSERT_TRUE(shown_);
  EXPECT_THAT(reported(), ElementsAre("host-0", "host-1"));
  EXPECT_THAT(shown_->silent, IsEmpty());
  EXPECT_EQ(shown_->graph.plan, controller_.tables().plans.at(plan, session_).plan);
  EXPECT_EQ(shown_->on_hosts, controller_.tables().plans.at(plan, session_).on_hosts);
}

TEST_F(ShownTimelinesTest, AHostThatIsLostMeanwhileOrKeepsNothingIsNamedWithTheReason) {
  const PlanId plan = compile(session_);
  Fiber fiber = asking(plan);
  lose(0);
  reactor_->run_ready();
  executor_[1].telling->fail(Error(ErrorKind::kInvalid, "timeline: this executor keeps none"));
  reactor_->run_ready();
  fiber.join();
  ASSERT_TRUE(shown_);
  EXPECT_THAT(reported(), IsEmpty());
  ASSERT_EQ(shown_->silent.size(), 2u);
  EXPECT_THAT(shown_->silent.at("host-0").message(), HasSubstr("host-0"));
  EXPECT_THAT(shown_->silent.at("host-1").message(), HasSubstr("keeps none"));
}

TEST_F(ShownTimelinesTest, ThePlanMayGoWhileItsHostsAnswer) {
  const PlanId plan = compile(session_);
  Fiber fiber = asking(plan);
  controller_.path().release_plan(plan);
  reactor_->run_ready();
  tell(0, "host-0");
  tell(1, "host-1");
  fiber.join();
  ASSERT_TRUE(shown_);
  EXPECT_THAT(reported(), ElementsAre("host-0", "host-1"));
  reactor_->run([&] {
    EXPECT_THAT(
        error_text_of([&] { controller_.shown_graphs().timeline(session_, {.plan = plan}, 100); }),
        HasSubstr("no such executable"));
  });
}

class ShownGraphsTest : public ControllerTest {};

TEST_F(ShownGraphsTest, ASecondQuestionWhyAPlanIsAsItIsCompilesNothing) {
  const PlanId plan = compile(session_);
  const auto ask = [&] {
    return reactor_->run([&] {
      return controller_.shown_graphs().graph(session_, {.plan = plan, .why = "y"}).text;
    });
  };
  const std::string first = ask();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(controller_.shown_graphs().records().size(), 1u);
  EXPECT_EQ(controller_.shown_graphs().records().found(), 0u);
  EXPECT_EQ(ask(), first);
  EXPECT_EQ(controller_.shown_graphs().records().found(), 1u);
}

}  // namespace
}  // namespace gangway
