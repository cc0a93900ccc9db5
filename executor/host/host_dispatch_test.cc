#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "executor/host/host.h"
#include "ir/build/ops.h"
#include "ir/plan/positions.h"
#include "runtime/observe/trace.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"
#include "tests/support/training_step.h"

namespace gangway::host_dispatch_test {
namespace {

using std::literals::operator""sv;
using testing::HasSubstr;

constexpr PlanId kPlan{1};

class HostDispatchTest : public testing::TestWithParam<DeviceKind> {
 protected:
  HostDispatchTest()
      : reactor(GetParam() == DeviceKind::kSim ? Reactor::make_simulated() : Reactor::make_real()) {
  }
  std::unique_ptr<Reactor> reactor;
};

std::shared_ptr<const Plan> dispatched(const Plan& plan, Dispatch dispatch) {
  auto copy = std::make_shared<Plan>(plan);
  copy->dispatch = dispatch;
  return copy;
}

// Grants the run position by position, each once the one before it has ended.
void step_through(Reactor& reactor, TestHosts& hosts, const Plan& plan, const RunFrame& request,
                  uint64_t first_ticket) {
  for (auto& host : hosts.hosts) host->prepare({first_ticket / 100, request});
  const uint32_t count = Positions(plan).count(0);
  for (uint32_t p = 0; p < count; ++p) {
    for (auto& host : hosts.hosts) {
      host->grant({{{.run = request.run,
                     .slice = 0,
                     .first = p,
                     .count = 1,
                     .ticket = Ticket(first_ticket + p)}}});
    }
    reactor.run_until([&] {
      const auto& reported = hosts.logs[0]->reported;
      return !reported.empty() && reported.back().run == request.run &&
             reported.back().position_end > p;
    });
  }
}

TEST_P(HostDispatchTest, StepsThatAreDispatchedSequentiallyTrainAlike) {
  TestHosts t(*reactor, 2, 2, GetParam());
  const auto plan = dispatched(*training_step(2, 2), Dispatch::kSequential);
  t.install(kPlan, plan);
  t.put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 3; ++run) {
    step_through(*reactor, t, *plan, step_request(kPlan, run, 0.25f), 1 + 100 * (run - 1));
    const Done done = t.wait(RunId(run));
    EXPECT_FALSE(done.error) << done.error->what();
  }
  EXPECT_FLOAT_EQ(t.item<float>(RunId(1), 0), 8.0f);
  EXPECT_FLOAT_EQ(t.item<float>(RunId(2), 0), 2.0f);
  EXPECT_FLOAT_EQ(t.item<float>(RunId(3), 0), 0.5f);
}

// Number of nodes whose host-side work was done since the last drain.
size_t nodes_done(Tracer& tracer) {
  size_t nodes = 0;
  for (const TraceThread& thread : tracer.drain().threads) {
    nodes += static_cast<size_t>(std::ranges::count_if(
        thread.events, [](const TraceEvent& event) { return event.name == "enqueue"sv; }));
  }
  return nodes;
}

TEST_P(HostDispatchTest, AHostPreparesCallsWithThePrepareOrIfSequentialWithTheGrant) {
  Tracer tracer(reactor->clock(), "host");
  const TraceAttachment attached = tracer.attach("reactor");
  TestHosts t(*reactor, 1, 2, GetParam());
  for (const Dispatch dispatch : {Dispatch::kParallel, Dispatch::kSequential}) {
    const PlanId id(1 + static_cast<uint64_t>(dispatch));
    const auto plan = dispatched(*training_step(1, 2), dispatch);
    t.install(id, plan, {id.value});
    const PrepareFrame prepare{0, step_request(id, id.value)};
    const GrantFrame grant{
        {{.run = RunId(id.value), .slice = 0, .count = 1, .ticket = Ticket(id.value)}}};
    Host& host = *t.hosts[0];
    const bool sequential = dispatch == Dispatch::kSequential;
    tracer.drain();
    EXPECT_EQ(host.calls_to_prepare(prepare), sequential ? 0u : 1u);
    host.prepare(prepare);
    EXPECT_EQ(nodes_done(tracer), sequential ? 0u : plan->nodes.size());
    EXPECT_EQ(host.calls_to_prepare(grant), sequential ? 1u : 0u);
    host.grant(grant);
    EXPECT_EQ(nodes_done(tracer), sequential ? 1u : 0u);
    host.cancel(RunId(id.value), ErrorKind::kUnavailable, "enough");
    EXPECT_TRUE(t.wait(RunId(id.value)).error);
  }
}

TEST_P(HostDispatchTest, ARunThatIsDispatchedSequentiallyIsNotGrantedWhole) {
  TestHosts t(*reactor, 1, 2, GetParam());
  const auto plan = dispatched(*training_step(1, 2), Dispatch::kSequential);
  t.install(kPlan, plan);
  const RunFrame request = step_request(kPlan, 1);
  t.hosts[0]->prepare({0, request});
  try {
    t.hosts[0]->grant(t.grant_of(request));
    FAIL() << "granted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected a slice's nodes one after another"));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, HostDispatchTest,
                         testing::Values(DeviceKind::kCpu, DeviceKind::kSim),
                         [](const auto& tested) {
                           return tested.param == DeviceKind::kCpu ? "Cpu" : "Sim";
                         });

}  // namespace
}  // namespace gangway::host_dispatch_test
