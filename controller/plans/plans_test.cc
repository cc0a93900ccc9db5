// Lowering of programs on threads of their own, beside the reactor's.
#include "controller/plans/plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway::plans_test {
namespace {

using testing::HasSubstr;

Program chain(int nodes) {
  ProgramBuilder b("chain");
  Value x = b.input("x", f32({4, 4}));
  for (int i = 0; i < nodes; ++i) x = dot(x, x);
  b.output("y", x);
  return b.build();
}

// One host with eight devices, on a reactor that does not simulate.
class Plans : public testing::Test {
 protected:
  Plans() { executor_.devices = 8; }

  SessionId connect(const std::string& owner = "ada") {
    return controller_.programs().add("client", owner, client_);
  }
  SliceId allocate(SessionId session) { return controller_.allocate(session, {1}).id; }
  const PlanRecord& compile(SessionId session, int nodes, CompileRequest request = {}) {
    return controller_.compile(session, chain(nodes), {allocate(session)}, std::move(request));
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  FakeExecutor executor_;
  FakeClient client_;
  Controller controller_{*reactor_};
  HostId host_ =
      controller_.add_host({.name = "host-0", .devices = 8, .memory_bytes = 1 << 20}, executor_);
};

TEST_F(Plans, OthersGoOnWhileAProgramIsLowered) {
  reactor_->run([&] {
    const SessionId session = connect();
    bool is_compiled = false, was_first = false;
    Fiber other = reactor_->spawn("other", [&] { was_first = !is_compiled; });
    const PlanRecord& plan = compile(session, 1000);
    is_compiled = true;
    other.join();
    EXPECT_TRUE(was_first);
    EXPECT_THAT(plan.text, HasSubstr("plan @chain"));
  });
}

TEST_F(Plans, PlansOfSeveralClientsAreAllLowered) {
  reactor_->run([&] {
    std::vector<Fiber> fibers;
    size_t done = 0;
    for (int i = 0; i < 8; ++i) {
      const SessionId session = connect();
      fibers.push_back(reactor_->spawn("client", [&, session, i] {
        EXPECT_EQ(compile(session, 50 + i % 3).plan->outputs.size(), 1u);
        ++done;
        controller_.session_closed(session);
      }));
    }
    for (Fiber& fiber : fibers) fiber.join();
    EXPECT_EQ(done, fibers.size());
  });
  EXPECT_EQ(controller_.counts().total(), 0u);
}

TEST_F(Plans, OneOwnersManyCompilesHoldUpNoOther) {
  reactor_->run([&] {
    const SessionId ann = connect("ann"), bob = connect("bob");
    const SliceId anns = allocate(ann), bobs = allocate(bob);
    std::vector<Fiber> fibers;
    int of_ann = 0;
    for (int i = 0; i < 60; ++i) {
      fibers.push_back(reactor_->spawn("ann", [&, i] {
        controller_.compile(ann, chain(300 + i), {anns}, {});
        ++of_ann;
      }));
    }
    reactor_->spawn("all are asked for", [] {}).join();
    controller_.compile(bob, chain(10), {bobs}, {});
    EXPECT_LT(of_ann, 30) << "bob's small one waited for them";
    for (Fiber& fiber : fibers) fiber.join();
    EXPECT_EQ(of_ann, 60);
  });
}

TEST_F(Plans, AProgramsErrorsNameItsOwnersFilesThoughAnotherCompiledTheSameBefore) {
  reactor_->run([&] {
    for (const std::string owner : {"ann", "bob"}) {
      const SessionId session = connect(owner);
      Program program = chain(3);
      for (auto& function : program.functions) {
        Function own = *function;
        for (LocEntry& loc : own.locs) loc.file = owner + "s.cc";
        function = std::make_shared<const Function>(std::move(own));
      }
      const PlanRecord& plan =
          controller_.compile(session, std::move(program), {allocate(session)}, {});
      for (const LocalFunction& local : plan.plan->functions) {
        for (const LocEntry& loc : local.function->locs) EXPECT_EQ(loc.file, owner + "s.cc");
      }
    }
  });
}

// Bodies that nodes share count once.
TEST(LowerTime, LoweringTimeCountsTheNodesOfLoopBodiesToo) {
  struct Counting final : Pacer {
    void begin_frame(size_t) override {}
    void end_frame() override {}
    void write(size_t, size_t) override {}
    void prepare_calls(size_t) override {}
    void compile(size_t count) override { nodes += count; }
    void wake() override {}
    size_t nodes = 0;
  };
  const auto nodes_of_loop = [](int64_t length, int adds) {
    ProgramBuilder b("loop");
    const auto body = [&](const ScanStep& at) -> Scanned {
      Value x = at.carries;
      for (int i = 0; i < adds; ++i) x = x * 3.0 + 1.0;
      return {.carries = x};
    };
    Value x = b.input("x", f32({4}));
    b.output("y", Value(scan(x.builder(), {.length = length, .carries = x}, body).carries));
    const auto reactor = Reactor::make_simulated();
    FakeExecutor executor;
    executor.devices = 1;
    FakeClient client;
    Controller controller(*reactor);
    controller.add_host({.name = "host-0", .devices = 1, .memory_bytes = 1 << 20}, executor);
    Counting pacer;
    reactor->run([&] {
      const SessionId session = controller.programs().add("client", "ada", client);
      controller.compile(session, b.build(), {controller.allocate(session, {1}).id},
                         {.pacer = &pacer});
    });
    return pacer.nodes;
  };
  EXPECT_EQ(nodes_of_loop(5, 12), nodes_of_loop(2, 12));
  EXPECT_GE(nodes_of_loop(2, 12), nodes_of_loop(2, 2) + 20);
}

TEST_F(Plans, ProgressOfAPlanIsReportedInRisingParts) {
  std::vector<CompileStage> reported;
  reactor_->run([&] {
    compile(connect(), 500,
            {.on_progress = [&](const CompileStage& at) { reported.push_back(at); }});
  });
  ASSERT_GE(reported.size(), 3u);
  EXPECT_LE(reported.size(), kCompileStagesMax);
  EXPECT_EQ(reported.front().what, "chain: verify");
  EXPECT_EQ(reported.back().what, "installing on 1 hosts");
  EXPECT_EQ(reported.back().part, 1);
  for (size_t i = 1; i < reported.size(); ++i) EXPECT_GT(reported[i].part, reported[i - 1].part);
}

TEST_F(Plans, AreGivenUpWhenTheirClientGoes) {
  std::optional<Error> error;
  reactor_->run([&] {
    const SessionId session = connect();
    const auto leave = [&](const CompileStage&) { controller_.session_closed(session); };
    error = error_of([&] { compile(session, 2000, {.on_progress = leave}); });
  });
  EXPECT_EQ(error->kind(), ErrorKind::kCancelled);
  EXPECT_EQ(controller_.counts().total(), 0u);
  EXPECT_TRUE(executor_.received.empty()) << "it has not heard of the plan";
}

TEST_F(Plans, AreGivenUpWhenAHostIsLost) {
  std::string error;
  reactor_->run([&] {
    const SessionId session = connect();
    const auto lose = [&](const CompileStage&) {
      controller_.host_lost(host_, Error(ErrorKind::kUnavailable, "its power is gone"));
    };
    error = error_text_of([&] { compile(session, 2000, {.on_progress = lose}); });
  });
  EXPECT_THAT(error, HasSubstr("its power is gone"));
  EXPECT_EQ(controller_.counts().plans, 0u);
}

TEST_F(Plans, MistakesFoundWhileLoweringLeaveNothingBehind) {
  ProgramBuilder b("wrong");
  b.output_of("y", b.input_on(0, "x", f32()));
  const Program program = b.build();
  reactor_->run([&] {
    const SessionId session = connect();
    const SliceId slice = controller_.allocate(session, {8}).id;
    EXPECT_THAT(error_text_of([&] { controller_.compile(session, chain(3), {slice}, {}); }),
                HasSubstr("is a mesh"));
    controller_.tables().slices.release(slice);
    const SliceId one = allocate(session);
    EXPECT_THAT(error_text_of([&] { controller_.compile(session, program, {one}, {}); }),
                HasSubstr("hands out input \"x\" itself"));
    EXPECT_EQ(controller_.counts().plans, 0u);
    EXPECT_TRUE(executor_.received.empty());
    controller_.tables().slices.release(one);
    controller_.allocate(session, {8});  // All are free again.
  });
}

// Four hosts, two of which write to each other.
class PlanOffers : public testing::Test {
 protected:
  PlanOffers() {
    for (int i = 0; i < 4; ++i) {
      executors_[i].writes_to = [](uint32_t self) { return std::vector<uint32_t>{self ^ 1}; };
      controller_.add_host({.name = cat("host-", i), .devices = 2, .memory_bytes = 1000},
                           executors_[i]);
    }
  }
  PlanId compile() {
    const SliceId slice = controller_.allocate(session_, {8}).id;
    return controller_.compile(session_, doubled(Mesh{{{"data", 8}}}), {slice}, {2}).id;
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executors_[4];
  FakeClient client_;
  Controller controller_{*reactor_};
  SessionId session_ = controller_.programs().add("tester", "ada", client_);
};

TEST_F(PlanOffers, AHostGetsThePlanOnceAndTheOffersOfTheHostsThatItWritesTo) {
  reactor_->run([&] { compile(); });
  for (const FakeExecutor& host : executors_) {
    EXPECT_EQ(host.installs, 1);
    EXPECT_THAT(host.linked_to, testing::ElementsAre(host.self ^ 1));
  }
}

TEST_F(PlanOffers, AHostThatSaysItWritesToOneBeyondThePlanIsRefused) {
  executors_[2].writes_to = [](uint32_t) { return std::vector<uint32_t>{4}; };
  reactor_->run([&] {
    EXPECT_THAT(error_text_of([&] { compile(); }),
                HasSubstr("says that it writes to host 4 of a plan of 4"));
    EXPECT_EQ(controller_.counts().plans, 0u);
  });
}

TEST_F(PlanOffers, AHostThatOffersTheMemoryOfAnotherOneIsRefused) {
  executors_[2].offers_of = 1;
  reactor_->run([&] {
    EXPECT_THAT(error_text_of([&] { compile(); }), HasSubstr("offers memory of host 1"));
    EXPECT_EQ(controller_.counts().plans, 0u);
  });
}

TEST_F(PlanOffers, WhileAPlanIsInstalledAgainNoLinkOfItsEarlierHostsIsItsOwn) {
  PlanTable& plans = controller_.tables().plans;
  PlanRecord* const plan = plans.find(reactor_->run([&] { return compile(); }), session_);
  const HostId one = plan->hosts[0], other = plan->hosts[1];
  EXPECT_EQ(plans.find_over_link(one, other), plan);
  executors_[0].installing.emplace();
  Fiber again = reactor_->spawn("install again", [&] {
    EXPECT_THAT(error_text_of([&] { plans.install_again(*plan, plan->program, "ada"); }),
                HasSubstr("made up"));
  });
  reactor_->run_ready();
  ASSERT_EQ(executors_[0].installs, 2);
  EXPECT_EQ(plans.find_over_link(one, other), nullptr);
  executors_[0].installing->fail(Error(ErrorKind::kInvalid, "made up"));
  again.join();
}

TEST(PlanMachines, APlanSaysWhichOfItsHostsShareAMachine) {
  const auto reactor = Reactor::make_simulated();
  FakeExecutor executors[3];
  FakeClient client;
  Controller controller(*reactor);
  const std::string machines[] = {"red", "blue", "red"};
  for (int i = 0; i < 3; ++i)
    controller.add_host(
        {.name = cat("host-", i), .devices = 2, .memory_bytes = 1000, .machine = machines[i]},
        executors[i]);
  const SessionId session = controller.programs().add("tester", "ada", client);
  reactor->run([&] {
    const auto compile = [&](uint32_t devices) {
      const SliceId slice = controller.allocate(session, {devices}).id;
      return controller.compile(session, doubled(Mesh{{{"data", devices}}}), {slice}, {2}).plan;
    };
    EXPECT_THAT(compile(6)->machines, testing::ElementsAre(0, 1, 0));
    EXPECT_THAT(compile(2)->machines, testing::IsEmpty()) << "one host";
  });
}

}  // namespace
}  // namespace gangway::plans_test
