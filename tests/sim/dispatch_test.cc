// Sequential dispatch on simulated clusters: it computes the results of parallel dispatch, also
// while other programs run, and failures meanwhile are named and freed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "gangway.h"
#include "programs/train/language_model.h"
#include "sim/study.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const auto kQuiet = [](const std::string&) {};

// Adds x, which is cut over the devices, to a count. Outputs the count plus the output of the slice
// before.
std::shared_ptr<const Function> count_on(uint32_t slice, const Mesh& mesh) {
  Builder b(cat("count", slice), mesh);
  const Value count = b.parameter("count", f32({2}));
  const Value x = b.parameter("x", f32({mesh.devices(), 2}), {{"data", shard(0)}});
  const Value next = count + timed(sum(x, {0}), 100);
  Value told = mean(next);
  if (slice > 0) told = told + b.parameter("before", f32());
  b.result("next", next);
  b.result("told", told);
  return std::make_shared<const Function>(b.build());
}

// Counts on one slice after another, and on the first one once more.
Program counting(uint32_t slices) {
  const Mesh mesh{{{"data", 2}}};
  ProgramBuilder b("counting", mesh);
  ProgramValue told;
  for (uint32_t s = 0; s < slices; ++s) {
    const uint32_t slice = s == 0 ? 0 : b.slice(cat("slice", s), mesh);
    const ProgramValue count = b.state_on(slice, cat("count", s), zeros(f32({2})));
    std::vector<ProgramValue> arguments = {
        count, b.input_on(slice, cat("x", s), f32({2, 2}), {{"data", shard(0)}})};
    if (s > 0) arguments.push_back(b.transfer(told, slice));
    told = b.call(slice, cat("call", s), count_on(s, mesh), arguments, {{0, count.edge.node}})[1];
  }
  Builder twice("twice", mesh);
  const Value y = twice.parameter("y", f32());
  twice.result("twice", y + y);
  b.output_of("told", told);
  b.output_of("twice", b.call(0, "twice", std::make_shared<const Function>(twice.build()),
                              {b.transfer(told, 0)})[0]);
  return b.build();
}

std::vector<Slice> three_slices(const Client& client) {
  std::vector<Slice> slices;
  while (slices.size() < 3) slices.push_back(client.allocate({.devices = 2}));
  return slices;
}

// The outputs of `runs` runs, with inline arguments and arrays in turn.
std::vector<float> told_by(const std::vector<Slice>& slices, Dispatch dispatch, int runs) {
  const Executable program = slices[0].compile(counting(3), {slices[1], slices[2]},
                                               {.runs_in_flight_max = 3, .dispatch = dispatch});
  const HostTensor x = HostTensor::of<float>({2, 2}, {1, 2, 3, 4});
  const Array array = slices[1].from_host(x);
  std::vector<gangway::Run> under_way;
  for (int i = 0; i < runs; ++i) {
    const Argument second = i % 2 == 0 ? Argument{"x1", array} : Argument{"x1", x};
    under_way.push_back(program.run({{"x0", x}, second, {"x2", x}}));
  }
  std::vector<float> told;
  for (const gangway::Run& run : under_way) {
    told.push_back(run["told"].item<float>());
    EXPECT_EQ(run["twice"].item<float>(), 2 * told.back());
  }
  EXPECT_EQ(slices[0].read_state("count0").as<float>()[0], 4.0f * static_cast<float>(runs));
  return told;
}

TEST(DispatchTest, SequentialDispatchComputesWhatParallelDispatchDoes) {
  const auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 3, .devices_per_host = 2});
    Client client = cluster.connect("client", {.on_warning = kQuiet});
    const std::vector<float> parallel = told_by(three_slices(client), Dispatch::kParallel, 5);
    EXPECT_EQ(parallel.back(), 3 * 5 * 5);  // Three slices, five runs, 4 + 6 over 2.
    EXPECT_EQ(told_by(three_slices(client), Dispatch::kSequential, 5), parallel);
    client.close();
  });
}

TEST(DispatchTest, ASequentialProgramSharesDevicesWithOthersInTheOrderOfTickets) {
  const auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  const auto order = std::make_shared<OrderLog>();
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 3, .devices_per_host = 2, .order_log = order});
    std::vector<Client> clients;
    std::vector<std::vector<Slice>> slices;  // The slices of each client, on all three hosts.
    for (int c = 0; c < 3; ++c) {
      clients.push_back(cluster.connect(cat("client-", c), {.on_warning = kQuiet}));
      slices.push_back(three_slices(clients.back()));
    }
    std::vector<Fiber> fibers;
    for (size_t c = 0; c < clients.size(); ++c) {
      fibers.push_back(reactor->spawn("client", [&slices, c] {
        const Dispatch dispatch = c == 1 ? Dispatch::kParallel : Dispatch::kSequential;
        EXPECT_EQ(told_by(slices[c], dispatch, 8).back(), 3 * 5 * 8);
      }));
    }
    for (Fiber& fiber : fibers) fiber.join();
    slices.clear();
    for (const Client& client : clients) client.close();
  });
  EXPECT_EQ(broken_order(*order), "");
}

TEST(DispatchTest, AUserIsWarnedOnceThatAProgramIsDispatchedSequentially) {
  const auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  std::vector<std::string> lines;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 3, .devices_per_host = 2});
    Client client = cluster.connect(
        "client", {.on_warning = [&](const std::string& line) { lines.push_back(line); }});
    told_by(three_slices(client), Dispatch::kSequential, 4);
    told_by(three_slices(client), Dispatch::kParallel, 4);
    client.close();
  });
  EXPECT_THAT(lines,
              ElementsAre(HasSubstr("program \"counting\" is dispatched sequentially: its hosts")));
}

TEST(DispatchTest, AClientGoesOnWhenItsUsersWarningCallbackThrows) {
  const auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  ::testing::internal::CaptureStderr();
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 3, .devices_per_host = 2});
    Client client = cluster.connect("client", {.on_warning = [](const std::string&) {
                                      throw Error(ErrorKind::kOverloaded, "no room for warnings");
                                    }});
    EXPECT_EQ(told_by(three_slices(client), Dispatch::kSequential, 2).back(), 3 * 5 * 2);
    client.close();
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("on_warning threw: "), HasSubstr("no room for warnings"),
                    HasSubstr("program \"counting\" is dispatched sequentially")));
}

TEST(DispatchTest, ACancelledRunEndsAndThoseBehindItSayWhy) {
  const auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 3, .devices_per_host = 2});
    Client client = cluster.connect("client", {.on_warning = kQuiet});
    {
      const std::vector<Slice> slices = three_slices(client);
      const Executable program = slices[0].compile(counting(3), {slices[1], slices[2]},
                                                   {.dispatch = Dispatch::kSequential});
      const HostTensor x = HostTensor::of<float>({2, 2}, {1, 2, 3, 4});
      const std::vector<Argument> arguments = {{"x0", x}, {"x1", x}, {"x2", x}};
      program.run(arguments).wait();
      const gangway::Run cancelled = program.run(arguments), behind = program.run(arguments);
      WaitQueue().wait_until_ns("for the run to begin", reactor->clock().now_ns() + 300'000);
      cancelled.cancel();
      EXPECT_THROW(cancelled.wait(), Error);
      EXPECT_THROW(behind.wait(), Error);
      EXPECT_EQ(program.run(arguments)["told"].item<float>(), 3 * 5 * 2) << "state is as it was";
    }
    client.close();
  });
}

// Each seed draws faults: hosts that vanish, hang, are slow or lose memory, and links that break.
TEST(DispatchTest, NothingIsLeftWhateverGoesWrong) {
  int failed = 0;
  std::ptrdiff_t named = 0;
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    StudyOptions options{
        .cluster = {.hosts = 5, .devices_per_host = 2, .timed_only = true, .host_timeout_ms = 4000},
        .programs = {counting(3), counting(2)},
        .runs = 20,
        .dispatch = Dispatch::kSequential,
        .seed = tests::test_seed() + seed,
        .faults_seed = tests::test_seed() + seed,
        .faults_within_ns = 20'000'000,
        .time_limit_ns = 600'000'000'000};
    const StudyReport report = study(options);
    SCOPED_TRACE(cat("seed ", options.seed));
    for (const ProgramReport& program : report.programs) {
      EXPECT_EQ(program.done + program.failed, program.submitted) << program.error;
      failed += program.failed;
    }
    named +=
        std::ranges::count_if(report.faults, [](const auto& met) { return !met.named.empty(); });
    EXPECT_EQ(report.left.total(), 0u);
    EXPECT_EQ(report.left_bytes, 0);
    EXPECT_EQ(report.left_fibers, 0u);
  }
  EXPECT_GT(failed, 0) << "no fault met a run";
  EXPECT_GT(named, 0) << "no user was told of a fault";
}

class SequentialTrainingTest : public FolderTest {};

TEST_F(SequentialTrainingTest, StepsThatReadASourceAndUpdateStateTrainAlike) {
  std::string text;
  while (text.size() < 8000) text += cat("line ", text.size(), " of the text. ");
  programs::LanguageModelConfig config;
  config.text = write("text.txt", text).string();
  config.batch = 8;
  config.model = {.seq = 16, .dim = 16, .layers = 1, .heads = 2, .hidden = 16};
  const auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 2, .devices_per_host = 2});
    Client client = cluster.connect("client", {.on_warning = kQuiet});
    const auto losses = [&](Dispatch dispatch) {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(programs::train_step(config, slice.mesh({{"data", 4}})),
                                            CompileOptions{.dispatch = dispatch});
      std::vector<gangway::Run> runs;
      for (int i = 1; i <= 3; ++i)
        runs.push_back(step.run({{"lr", 0.01f}, {"step", static_cast<float>(i)}}));
      std::vector<float> all;
      for (const gangway::Run& run : runs) all.push_back(run["loss"].item<float>());
      return all;
    };
    EXPECT_EQ(losses(Dispatch::kSequential), losses(Dispatch::kParallel));
    client.close();
  });
}

}  // namespace
}  // namespace gangway
