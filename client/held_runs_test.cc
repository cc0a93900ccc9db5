#include "client/held_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "controller/service/service.h"
#include "executor/service/service.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "runtime/net/sim_network.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/thread.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr int64_t kGroups = 4, kTokens = 6, kDim = 3, kExperts = 4, kHidden = 5;
const AxisPlacements kByExpert = {{"expert", shard(0)}};

// Rows of x go to the experts that `choice` names, on two devices, each of which has room for
// `bound` times its own rows. State "log" gets the digit `n` behind those that it has. With a path,
// the program outputs the windows of the text there that it read.
Program routed(const Mesh& mesh, double bound, int64_t hidden = kHidden,
               const std::string& path = {}) {
  ProgramBuilder b("routed", mesh);
  Value x = b.input("x", f32({kGroups, kTokens, kDim}), kByExpert);
  Value choice = b.input("choice", i32({kGroups, kTokens, 1}), kByExpert);
  Value n = b.input("n", f32());
  Value w = b.state("w", zeros(f32({kExperts, kDim, hidden})), kByExpert);
  Value log = b.state("log", zeros(f32()));
  Route route = moe_route(choice, kExperts);
  route.bound = bound;
  Value next = log * 10.0 + n;
  b.update(log, next);
  b.output("log", next);
  b.output("y", sum(grouped_dot(moe_dispatch(x, route), w + 1.0, route)));
  b.output("one more", x + 1.0, kByExpert);
  if (!path.empty()) {
    Value tokens = b.source("tokens", {"text", {{"path", path}, {"seed", int64_t{1}}}},
                            i32({kGroups, kTokens}), kByExpert);
    b.output("tokens", convert(tokens, DType::kF32));
  }
  return b.build();
}

template <class Choice>
HostTensor choices(Choice choice) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < kGroups * kTokens; ++i)
    all.push_back(static_cast<int32_t>(choice(i / kTokens, i % kTokens)));
  return HostTensor::of<int32_t>({kGroups, kTokens, 1}, all);
}

// crowded(): all rows go to the experts of the first device, twice its own. balanced(): each device
// keeps its rows.
HostTensor crowded() {
  return choices([](int64_t, int64_t token) { return token % 2; });
}
HostTensor balanced() {
  return choices([](int64_t group, int64_t token) { return group / 2 * 2 + token % 2; });
}

HostTensor rows(float value) {
  const auto size = static_cast<size_t>(kGroups * kTokens * kDim);
  return HostTensor::of<float>({kGroups, kTokens, kDim}, std::vector<float>(size, value));
}

std::vector<Argument> given(float n, const HostTensor& choice) {
  return {{"x", rows(1)}, {"choice", choice}, {"n", n}};
}

float logged(const gangway::Run& run) { return run["log"].item<float>(); }
float logged(const Slice& slice) { return slice.read_state("log").as<float>()[0]; }

class HeldRunsTest : public testing::Test {
 protected:
  Client client_ = connect("local:2x1", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice_ = client_.allocate({.devices = 2});
  Mesh mesh_ = slice_.mesh({{"expert", 2}});
};

TEST_F(HeldRunsTest, ARunWithTooLittleRoomRunsAgainWithThoseBehindItInTheirOrder) {
  for (const double bound : {0, 1, 2}) {
    const Slice slice = client_.allocate({.devices = 2});
    const Executable step = slice.compile(routed(mesh_, bound));
    std::vector<gangway::Run> runs;
    runs.push_back(step.run(given(1, bound == 0 ? balanced() : crowded())));
    for (const float n : {2.0f, 3.0f}) runs.push_back(step.run(given(n, balanced())));
    runs.push_back(step.run(given(4, crowded())));
    EXPECT_EQ(logged(runs[3]), 1234);
    EXPECT_EQ(logged(runs[0]), 1);
    for (const gangway::Run& run : runs) EXPECT_EQ(run["y"].item<float>(), 24 * kDim * kHidden);
    EXPECT_EQ(logged(slice), 1234);
    EXPECT_EQ(step.position(), 4u);
  }
}

TEST_F(HeldRunsTest, StatesAreReadAndWrittenBehindRunsThatRunAgain) {
  const Executable step = slice_.compile(routed(mesh_, 0));
  step.run(given(1, crowded()));
  EXPECT_EQ(logged(slice_), 1);
  EXPECT_EQ(logged(slice_), 1);
  const Slice other = client_.allocate({.devices = 2});
  const Executable again = other.compile(routed(mesh_, 0));
  again.run(given(1, crowded()));
  other.write_state("log", HostTensor(7.0f));
  EXPECT_EQ(logged(again.run(given(2, balanced()))), 72);
}

// A program reads the text as it is when the user compiles it. Compiling again, for more room, does
// not change the text.
TEST_F(HeldRunsTest, ARunThatRunsAgainReadsTheTextThatItsProgramWasCompiledWith) {
  const TempDir folder;
  const std::string grows = (folder.path() / "grows").string();
  const std::string stays = (folder.path() / "stays").string();
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
  std::ofstream(grows) << text;
  std::ofstream(stays) << text;
  const Executable step = slice_.compile(routed(mesh_, 1, kHidden, grows));
  std::ofstream(grows, std::ios::app) << std::string(40'000, 'z');
  const gangway::Run again = step.run(given(1, crowded()));
  const Slice other = client_.allocate({.devices = 2});
  const Executable roomy = other.compile(routed(mesh_, 2, kHidden, stays));
  const gangway::Run once = roomy.run(given(1, crowded()));
  EXPECT_EQ(again["tokens"].to_host().as<float>(), once["tokens"].to_host().as<float>());
}

// Another program, which outputs state "log" and adds a digit to it.
Program marks(const Mesh& mesh) {
  ProgramBuilder b("marks", mesh);
  Value more = b.input("more", f32());
  Value log = b.state("log", zeros(f32()));
  b.update(log, log * 10.0 + more);
  b.output("log", log);
  return b.build();
}

TEST_F(HeldRunsTest, RunsOfAnotherProgramSeeTheStatesOfTheirTurn) {
  const Executable step = slice_.compile(routed(mesh_, 0)), mark = slice_.compile(marks(mesh_));
  std::vector<gangway::Run> read;
  for (const float n : {1.0f, 2.0f}) {
    step.run(given(n, crowded()));
    read.push_back(mark.run({{"more", n + 6}}));
  }
  EXPECT_EQ(logged(read[1]), 172);
  EXPECT_EQ(logged(read[0]), 1);
  EXPECT_EQ(logged(slice_), 1728);
}

TEST_F(HeldRunsTest, TheResultOfARunThatRunsAgainIsAnArgumentOfAnotherProgram) {
  const Executable step = slice_.compile(routed(mesh_, 0));
  const Slice other = client_.allocate({.devices = 2});
  const Executable mark = other.compile(marks(mesh_));
  mark.run({{"more", step.run(given(1, crowded()))["log"]}});
  EXPECT_EQ(logged(other), 1);
}

TEST_F(HeldRunsTest, CompilingAgainWithALargerBoundWarnsTheUserWithTheBoundsAndTheLine) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const Client client = connect(
      "local:2x1",
      {.in_process = true, .memory_bytes = 64 << 20, .on_warning = [&](const std::string& line) {
         const std::lock_guard lock(mutex);
         lines.push_back(line);
       }});
  const Executable step = client.allocate({.devices = 2}).compile(routed(mesh_, 0.5));
  step.run(given(1, balanced())).wait();
  step.run(given(2, crowded())).wait();
  const std::lock_guard lock(mutex);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("program \"routed\": more rows came"));
  EXPECT_THAT(lines[0], HasSubstr("bound 0.5 became 1 at held_runs_test.cc:"));
  EXPECT_THAT(lines[1], HasSubstr("bound 1 became 2 at held_runs_test.cc:"));
}

TEST_F(HeldRunsTest, TheResultOfARunThatRunsAgainIsAnArgumentOfTheNext) {
  const Executable step = slice_.compile(routed(mesh_, 1));
  const gangway::Run first = step.run(given(1, crowded()));
  const gangway::Run second =
      step.run({{"x", first["one more"]}, {"choice", crowded()}, {"n", 2.0f}});
  EXPECT_THAT(second["one more"].to_host().as<float>(), testing::Each(3.0f));
  EXPECT_EQ(second["y"].item<float>(), 2 * 24 * kDim * kHidden);
  EXPECT_EQ(logged(second), 12);
}

TEST_F(HeldRunsTest, AnArrayOutlivesItsExecutableWhoseRunIsRunAgain) {
  const Array log = [&] {
    return slice_.compile(routed(mesh_, 1)).run(given(1, crowded()))["log"];
  }();
  EXPECT_EQ(log.item<float>(), 1);
  EXPECT_EQ(logged(slice_), 1);
}

TEST_F(HeldRunsTest, NoProgressIsReportedAfterACompileHasReturned) {
  int told = 0;
  const Executable step =
      slice_.compile(routed(mesh_, 1), {.on_progress = [&](const CompileProgress&) { ++told; }});
  const int during_compile = told;
  EXPECT_GT(during_compile, 0);
  EXPECT_EQ(logged(step.run(given(1, crowded()))), 1);
  EXPECT_EQ(told, during_compile);
}

TEST_F(HeldRunsTest, ARunReleasesItsArgumentsOnceItsEndIsKnown) {
  const Executable step = slice_.compile(routed(mesh_, 1));
  for (const HostTensor& choice : {crowded(), balanced()}) {
    Array x = slice_.from_host(rows(1));
    const std::weak_ptr<internal::ArrayImpl> given = x.impl();
    const gangway::Run run = step.run({{"x", x}, {"choice", choice}, {"n", 1.0f}});
    x = Array();
    run.wait();
    EXPECT_TRUE(given.expired());
  }
}

TEST_F(HeldRunsTest, SeveralThreadsRunOneExecutable) {
  const Executable step = slice_.compile(routed(mesh_, 0));
  const auto enqueue = [&] {
    std::vector<gangway::Run> runs;
    for (int i = 0; i < 6; ++i) runs.push_back(step.run(given(0, crowded())));
    for (const gangway::Run& run : runs) EXPECT_EQ(run["y"].item<float>(), 24 * kDim * kHidden);
  };
  {
    Thread one("one", enqueue), two("two", enqueue);
    enqueue();
  }
  EXPECT_EQ(step.position(), 18u);
  EXPECT_EQ(logged(step.run(given(1, balanced()))), 1);
}

// Bytes for each device, without states.
int64_t needs(const Slice& slice, const Program& program) {
  return slice.compile(program).memory().devices.at(0).total();
}

TEST(HeldRunsMemoryTest, RunsWhoseLargerProgramDoesNotFitFailAndLaterOnesUseTheLastProgram) {
  constexpr int64_t kWide = 1 << 14;
  const auto connected = [](int64_t memory_bytes) {
    return connect("local:1x2", {.in_process = true, .memory_bytes = memory_bytes});
  };
  int64_t small = 0, large = 0;
  Mesh mesh{{{"expert", 2}}};
  {
    const Client client = connected(int64_t{1} << 30);
    const Slice slice = client.allocate({.devices = 2});
    small = needs(slice, routed(mesh, 1, kWide));
    large = needs(slice, routed(mesh, 2, kWide));
  }
  ASSERT_LT(small + (1 << 18), large);
  const Client client = connected(large - 1);
  const Slice slice = client.allocate({.devices = 2});
  const Executable step = slice.compile(routed(mesh, 1, kWide));
  for (int i = 0; i < 2; ++i) {
    const gangway::Run first = step.run(given(1, crowded()));
    const gangway::Run second = step.run(given(2, balanced()));
    // The second run may have been enqueued once the first had failed.
    for (const gangway::Run& failed : {second, first}) {
      const Error error = error_of([&] { failed.wait(); });
      EXPECT_THAT(error.what(), HasSubstr("does not fit"));
    }
    EXPECT_EQ(error_of([&] { first.wait(); }).kind(), ErrorKind::kInvalid);
    EXPECT_EQ(logged(step.run(given(3, balanced()))), i == 0 ? 3 : 33);
  }
}

// Runs body(client, reactor, controller) next to a cluster on virtual time.
template <class Body>
void on_simulated(uint32_t copy_credits, Body body) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    SimNetwork network(*reactor, {.delay = std::chrono::microseconds(50)});
    ControllerService controller(
        *reactor, network.endpoint("controller"),
        {.address = "sim:controller", .controller = {.copy_credits = copy_credits}});
    const ExecutorService executor(
        *reactor, network.endpoint("host-0"),
        {.controller = "sim:controller",
         .host = {.name = "host-0", .kind = DeviceKind::kSim, .devices = 2}});
    const Client client =
        internal::connect_on(*reactor, network.endpoint("client"), "sim:controller");
    body(client, *reactor, controller.controller());
    client.close();
  });
}

void pass_a_second(Reactor& reactor) {
  WaitQueue().wait_until_ns("for a second", reactor.clock().now_ns() + 1'000'000'000);
}

TEST(HeldRunsSimTest, ARunCancelledBeforeItCouldRunAgainSaysSoAndSoDoThoseBehindIt) {
  on_simulated(8, [](const Client& client, Reactor& reactor, const Controller&) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 1));
    std::vector<gangway::Run> runs;
    for (const float n : {1.0f, 2.0f, 3.0f, 4.0f}) runs.push_back(step.run(given(n, crowded())));
    pass_a_second(reactor);  // The runs have ended, and are held.
    runs[2].cancel();
    pass_a_second(reactor);
    runs.push_back(step.run(given(5, crowded())));
    EXPECT_EQ(logged(runs[0]), 1);
    EXPECT_EQ(logged(runs[1]), 12);
    for (const size_t behind : {3, 4}) {
      const Error error = error_of([&] { logged(runs[behind]); });
      EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
      EXPECT_THAT(error.what(), HasSubstr("nothing was committed, since the run before it did not "
                                          "commit: run of \"routed\": cancelled"));
    }
    const Error error = error_of([&] { runs[2].wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_EQ(error.message(), "run of \"routed\": cancelled");
    EXPECT_EQ(logged(slice), 12);
    EXPECT_EQ(logged(step.run(given(6, crowded()))), 126);
  });
}

TEST(HeldRunsSimTest, RunsBehindAFailedRunDoNotRunAgain) {
  on_simulated(8, [](const Client& client, Reactor&, const Controller&) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 1));
    const gangway::Run bad = step.run(given(1, balanced()));
    bad.cancel();
    const gangway::Run behind = step.run(given(2, crowded()));
    EXPECT_THAT(error_text_of([&] { behind.wait(); }), HasSubstr("nothing was committed"));
    EXPECT_EQ(error_of([&] { bad.wait(); }).kind(), ErrorKind::kCancelled);
    EXPECT_EQ(logged(step.run(given(3, crowded()))), 3);
  });
}

TEST(HeldRunsSimTest, AskingWhetherARunHasEndedDoesNotWait) {
  on_simulated(8, [](const Client& client, Reactor& reactor, const Controller&) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 1));
    const gangway::Run run = step.run(given(1, crowded()));
    pass_a_second(reactor);
    const int64_t before_ns = reactor.clock().now_ns();
    EXPECT_FALSE(run.done());
    EXPECT_FALSE(run["log"].ready());
    EXPECT_EQ(reactor.clock().now_ns(), before_ns);
    run.wait();
    EXPECT_TRUE(run.done());
    EXPECT_TRUE(run["log"].ready());
  });
}

// While one fiber waits for a place for its copy another enqueues, and others wait for ends.
TEST(HeldRunsSimTest, FibersWhoseArgumentsAreCopiedOneByOneRunOneExecutable) {
  on_simulated(1, [](const Client& client, Reactor& reactor, const Controller&) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 0));
    std::vector<Fiber> fibers;
    for (int i = 0; i < 4; ++i) {
      fibers.push_back(reactor.spawn("client", [&] {
        const Array x = slice.from_host(rows(1));
        std::vector<gangway::Run> runs;
        for (int k = 0; k < 3; ++k)
          runs.push_back(step.run({{"x", x}, {"choice", crowded()}, {"n", 0.0f}}));
        for (const gangway::Run& run : runs) EXPECT_EQ(run["y"].item<float>(), 24 * kDim * kHidden);
        logged(slice);
      }));
    }
    for (Fiber& fiber : fibers) fiber.join();
    EXPECT_EQ(step.position(), 12u);
    EXPECT_EQ(logged(step.run(given(1, balanced()))), 1);
  });
}

TEST(HeldRunsSimTest, AFiberThatIsCancelledLeavesTheWorkToTheNext) {
  on_simulated(8, [](const Client& client, Reactor& reactor, const Controller&) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 1));
    std::vector<gangway::Run> runs;
    for (const float n : {1.0f, 2.0f}) runs.push_back(step.run(given(n, crowded())));
    pass_a_second(reactor);
    std::optional<Error> error;
    Fiber waits = reactor.spawn("waits", [&] { error = error_of([&] { runs[0].wait(); }); });
    WaitQueue().wait_until_ns("for its compile", reactor.clock().now_ns() + 60'000);
    waits.cancel();
    waits.join();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(logged(runs[1]), 12);
    EXPECT_EQ(logged(runs[0]), 1);
  });
}

TEST(HeldRunsSimTest, CopiesOfHostTensorsGoWithThePlanThatTheyAreFor) {
  on_simulated(8, [](const Client& client, Reactor& reactor, const Controller& controller) {
    const auto arrays = [&] {
      pass_a_second(reactor);
      return controller.counts().arrays;
    };
    const Slice slice = client.allocate({.devices = 2});
    const Array x = slice.from_host(rows(1));
    {
      const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 0));
      step.run({{"x", x}, {"choice", crowded()}, {"n", 1.0f}}).wait();
      EXPECT_EQ(arrays(), 1u) << "of x, for the last of three plans";
    }
    EXPECT_EQ(arrays(), 0u) << "while x is held";
  });
}

// All fibers know the first plan and wait for one another to copy: it goes before the last one
// copies.
TEST(HeldRunsSimTest, ACopyForAPlanThatHasGoneMeanwhileIsLetGo) {
  on_simulated(1, [](const Client& client, Reactor& reactor, const Controller&) {
    const Slice slice = client.allocate({.devices = 2});
    std::vector<Array> arrays;
    for (int i = 0; i < 16; ++i) arrays.push_back(slice.from_host(rows(1)));
    {
      const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 0));
      std::vector<Fiber> fibers;
      for (const Array& x : arrays) {
        fibers.push_back(reactor.spawn(
            "client", [&] { step.run({{"x", x}, {"choice", crowded()}, {"n", 0.0f}}).wait(); }));
      }
      for (Fiber& fiber : fibers) fiber.join();
      for (const Array& x : arrays) EXPECT_LE(x.impl()->placed.size(), 1u);
    }
    for (const Array& x : arrays) EXPECT_EQ(x.impl()->placed.size(), 0u);
  });
}

TEST(HeldRunsSimTest, ClosingTheClientEndsHeldRuns) {
  on_simulated(8, [](const Client& client, Reactor& reactor, const Controller&) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(routed(slice.mesh({{"expert", 2}}), 1));
    const gangway::Run held = step.run(given(1, crowded()));
    pass_a_second(reactor);
    client.close();
    EXPECT_THAT(error_text_of([&] { held.wait(); }), HasSubstr("client: closed"));
  });
}

}  // namespace
}  // namespace gangway
