// Executors that outlive their controller: they wait for it, and register with the next one under
// the names that they had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "client/client_impl.h"
#include "controller/recovery/checkpoints.h"
#include "controller/service/resumed_programs.h"
#include "controller/service/service.h"
#include "executor/devices/sim/sim_host.h"
#include "executor/links/sim_fabric.h"
#include "executor/service/lasting_executor.h"
#include "gangway.h"
#include "runtime/base/hash.h"
#include "protocol/text_limits.h"
#include "runtime/net/sim_network.h"
#include "runtime/os/user.h"
#include "sim/sim_cluster.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMemory = 8 << 20;

// A cluster of two hosts with two devices each, whose controller comes and goes.
class Restarts {
 public:
  explicit Restarts(Reactor& reactor, const ControllerWait& wait = {})
      : reactor_(reactor), network_(reactor) {
    for (size_t host = 0; host < 2; ++host) start_executor(host, wait);
  }

  void start_controller(std::shared_ptr<StateDir> state = nullptr, ControllerOptions options = {}) {
    controller_.emplace(reactor_, network_.endpoint("controller"),
                        ControllerServiceOptions{.address = "sim:controller",
                                                 .controller = std::move(options),
                                                 .state = std::move(state)});
  }
  Controller& controller() { return controller_->controller(); }
  // As when a day has passed.
  void forget_lost_hosts() {
    controller_->controller().hosts().names().forget_old(reactor_.clock().now_ns() +
                                                         HostNames::kForgetAfterNs);
  }
  const HostNames& host_names() { return controller_->controller().hosts().names(); }
  void kill_controller() {
    network_.break_connections("controller");
    controller_.reset();
  }
  // `told`: gets its warnings.
  Client connect(const std::string& name, std::vector<std::string>* told = nullptr) {
    ConnectOptions options{.name = name};
    if (told != nullptr)
      options.on_warning = [told](const std::string& line) { told->push_back(line); };
    return internal::connect_on(reactor_, network_.endpoint(name), "sim:controller", options);
  }
  Client attach(const std::string& endpoint, const std::string& name) {
    return internal::attach_on(reactor_, network_.endpoint(endpoint), "sim:controller",
                               {.name = name, .on_warning = [](const std::string&) {}});
  }
  void pass(std::chrono::nanoseconds time) const {
    WaitQueue().wait_until_ns("for time to pass", reactor_.clock().now_ns() + time.count());
  }
  // Of the hosts that are there.
  std::set<std::string> names() {
    std::set<std::string> names;
    for (const auto& [id, host] : controller_->controller().hosts().all()) {
      if (host.peer != nullptr) names.insert(host.info.name);
    }
    return names;
  }
  void end_executor(size_t host) { executors_[host].reset(); }
  LastingExecutor& executor(size_t host) { return *executors_[host]; }
  void start_executor(size_t host, const ControllerWait& wait = {}) {
    // Both ask for one name.
    executors_.resize(std::max(executors_.size(), host + 1));
    executors_[host] = std::make_unique<LastingExecutor>(
        reactor_, network_.endpoint(cat("machine-", host)),
        ExecutorServiceOptions{.controller = "sim:controller",
                               .host = {.name = "e",
                                        .kind = DeviceKind::kSim,
                                        .devices = 2,
                                        .memory_bytes = kMemory,
                                        .threads = 1,
                                        .fabric = fabric_,
                                        .sim = std::make_shared<SimHost>()}},
        wait);
  }

 private:
  Reactor& reactor_;
  SimNetwork network_;
  std::shared_ptr<SimFabric> fabric_ = std::make_shared<SimFabric>();
  std::optional<ControllerService> controller_;
  std::vector<std::unique_ptr<LastingExecutor>> executors_;
};

// Its state fills most of the memory: none of another controller's may be left beside it.
Program counting(const Mesh& mesh) {
  ProgramBuilder b("counting", mesh);
  const Value w = b.state("w", zeros(f32({kMemory / 4 / 4})));
  const Value next = w + 1.0;
  b.update(w, next);
  b.output("first", sum(next, {0}));
  return b.build();
}

void train(Restarts& cluster, const std::string& name) {
  const Client client = cluster.connect(name);
  {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(counting(slice.mesh({{"data", 4}})));
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(step.run()["first"].item<float>(), static_cast<float>(i * (kMemory / 16)));
    }
  }
  client.close();
}

TEST(RestartTest, ExecutorsRegisterWithEachControllerUnderTheNamesThatTheyHad) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed() + seed});
    reactor->run([&] {
      Restarts cluster(*reactor);
      cluster.pass(100s);  // Nobody is there.
      std::string first;
      for (int round = 0; round < 4; ++round) {
        cluster.start_controller();
        cluster.pass(8s);
        EXPECT_THAT(cluster.names(), ElementsAre("e", "e-2"));
        ASSERT_NE(cluster.executor(0).service(), nullptr);
        if (round == 0) first = cluster.executor(0).service()->name();
        EXPECT_EQ(cluster.executor(0).service()->name(), first);
        train(cluster, cat("trainer-", round));
        // In the middle of a run, the third time.
        std::optional<Client> running;
        if (round == 2) {
          running = cluster.connect("unlucky");
          const Slice slice = running->allocate({.devices = 4});
          slice.compile(counting(slice.mesh({{"data", 4}}))).run();
        }
        cluster.kill_controller();
        cluster.pass(std::chrono::seconds(round * 7));
      }
      cluster.pass(1s);
      EXPECT_EQ(cluster.executor(0).service(), nullptr);
      EXPECT_FALSE(cluster.executor(0).ended().ready());
    });
  }
}

TEST(RestartTest, AnExecutorThatMayNotWaitLongerSaysForHowLongItHasWaited) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor, {.limit_ms = 30'000});
    cluster.pass(20s);
    cluster.start_controller();
    cluster.pass(60s);
    EXPECT_FALSE(cluster.executor(1).ended().ready()) << "it has a controller";
    cluster.kill_controller();
    const int64_t since_ns = reactor->clock().now_ns();
    const Future<void> ended = cluster.executor(1).ended();
    const Error why = error_of([&] { ended.await(); });
    EXPECT_NEAR(static_cast<double>(reactor->clock().now_ns() - since_ns), 30e9, 2e9);
    EXPECT_EQ(why.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(why.what(), HasSubstr("no controller for 3"));
    EXPECT_THAT(why.what(), HasSubstr("nobody answers at sim:controller"));
  });
}

TEST(RestartTest, AnExecutorThatIsToEndWithItsControllerDoes) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor, {.is_ended_with_first = true});
    cluster.pass(20s);
    EXPECT_FALSE(cluster.executor(0).ended().ready()) << "it never had one";
    cluster.start_controller();
    cluster.pass(8s);
    EXPECT_NE(cluster.executor(0).service(), nullptr);
    cluster.kill_controller();
    cluster.executor(0).ended().await();
    EXPECT_EQ(cluster.executor(0).service(), nullptr);
  });
}

TEST(RestartTest, AnExecutorEndsAlsoInTheMomentInWhichItsControllerGoes) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    cluster.start_controller();
    cluster.pass(8s);
    cluster.kill_controller();
    cluster.end_executor(1);
    cluster.pass(1ms);
    cluster.end_executor(0);
  });
}

class StateDirRestartTest : public FolderTest {
 protected:
  std::shared_ptr<StateDir> state() const { return std::make_shared<StateDir>(folder_ / "state"); }
};

TEST_F(StateDirRestartTest, AControllerFindsTheNamesOfTheHostsThatTheOneBeforeItHad) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    cluster.start_controller(state());
    cluster.pass(8s);
    train(cluster, "trainer");
    std::optional<Client> running = cluster.connect("interrupted");
    const Slice slice = running->allocate({.devices = 1});
    const Client onlooker = cluster.connect("onlooker");
    EXPECT_EQ(onlooker.status().programs.size(), 2u);
    Client stopped = cluster.connect("stopped");
    static_cast<void>(stopped.allocate({.devices = 1}));
    EXPECT_TRUE(onlooker.stop_program("stopped", 0));
    cluster.kill_controller();
    EXPECT_EQ(state()->hosts().size(), 2u);
    cluster.start_controller(state());
    for (const char* name : {"e", "e-2"}) {
      const NamedHost* const host = cluster.host_names().find(name);
      ASSERT_NE(host, nullptr);
      EXPECT_TRUE(host->gone_at_ns.has_value());
      EXPECT_THAT(host->why_gone, HasSubstr("has not come back since the controller was started"));
    }
    cluster.pass(8s);
    EXPECT_THAT(cluster.names(), ElementsAre("e", "e-2"));
    EXPECT_FALSE(cluster.host_names().at("e").gone_at_ns.has_value());
    // Who never comes back is forgotten, in the folder too.
    cluster.kill_controller();
    cluster.end_executor(1);
    cluster.start_controller(state());
    cluster.pass(8s);
    cluster.forget_lost_hosts();
    cluster.pass(1s);
    EXPECT_EQ(cluster.host_names().all().size(), 1u);
    cluster.kill_controller();
    EXPECT_EQ(state()->hosts().size(), 1u);
  });
  const std::string log = FolderTest::read(folder_ / "state/programs.jsonl");
  const auto line = [](const char* event, const char* program, const char* rest) {
    return cat("Z\",\"event\":\"", event, "\",\"owner\":\"[^\"]+\",\"program\":\"", program,
               "\",\"client\":[0-9]+", rest, "\\}\n");
  };
  EXPECT_THAT(log,
              ContainsRegex("^\\{\"gangway\":\"programs\",\"version\":1\\}\n"
                            "\\{\"time\":\"[-0-9T:.]+Z\",\"event\":\"controller began\"\\}\n"));
  EXPECT_THAT(log, ContainsRegex(line("began", "trainer", "")));
  EXPECT_THAT(log,
              ContainsRegex(line("ended", "trainer", ",\"why\":\"it was closed\",\"runs\":3")));
  EXPECT_THAT(log, ContainsRegex(line("ended", "interrupted",
                                      ",\"why\":\"the controller has ended\",\"runs\":0")));
  EXPECT_THAT(log, ContainsRegex(line("ended", "stopped",
                                      ",\"why\":\"[^\"]+ asked it to stop\",\"runs\":0")));
  EXPECT_THAT(log, Not(HasSubstr("onlooker")));
}

// What a step does hangs on the states, on its number, on a schedule and on its place in a text.
Program walking(const std::filesystem::path& text, const std::string& name = "walking") {
  ProgramBuilder b(name, Mesh{{{"data", 4}}});
  const Value w = b.state("w", zeros(f32({8, 4})), {{"data", shard(0)}});
  const Value lr = b.input("lr", f32()), step = b.input("step", f32());
  const Value tokens = b.source(
      "tokens", {"text", {{"path", text.string()}, {"seed", int64_t{3}}, {"heldout", false}}},
      i32({8, 5}), {{"data", shard(0)}});
  const Value seen = mean(convert(tokens, DType::kF32)) * 0.01;
  const Value next = w - timed(w * 1.5 - step * 0.01 - seen, 500) * lr;
  b.update(w, next);
  b.output("loss", mean(next * next));
  return b.build();
}

class ResumedTest : public StateDirRestartTest {
 protected:
  static constexpr int kSteps = 480;
  static constexpr float kRate = 0.3f;

  void SetUp() override {
    FolderTest::SetUp();
    std::string text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
    text_ = FolderTest::write("text.txt", text);
    auto reactor = Reactor::make_simulated({.seed = 1});
    reactor->run([&] {
      Restarts cluster(*reactor);
      cluster.start_controller();
      cluster.pass(8s);
      const Client client = cluster.connect("alone");
      {
        const Slice slice = client.allocate({.devices = 4});
        const Executable step = slice.compile(walking(text_));
        for (int i = 0; i < kSteps; ++i) {
          const gangway::Run run = step.run({{"lr", rate(i)}, {"step", static_cast<float>(i)}});
          alone_.push_back(run["loss"].item<float>());
        }
        states_ = slice.read_state("w");
      }
      client.close();
    });
    ASSERT_NE(alone_[kSteps - 2], alone_[kSteps - 1]);
  }

  static Schedule rates() { return Schedule::linear(kRate, -1.0 / 4096); }
  static float rate(int step) { return static_cast<float>(value_at(rates(), step)); }
  ControllerOptions options() const { return {.checkpoint_folder = (folder_ / "kept").string()}; }
  void start(Restarts& cluster) const {
    cluster.start_controller(state(), options());
    cluster.pass(8s);
  }
  // A trainer that is detached as soon as it is repeated; `own` steps its client runs itself.
  void begin(Restarts& cluster, int own = 0, const std::string& name = "trainer",
             const std::vector<std::string>& elastic = {}) const {
    const Client client = cluster.connect(name);
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(walking(text_));
    slice.keep_checkpoints(
        {.every = 10, .keep = 2, .elastic = elastic, .metadata = {{"by", "a test"}}});
    for (int i = 0; i < own; ++i)
      step.run({{"lr", rate(i)}, {"step", static_cast<float>(i)}}).wait();
    step.repeat(kSteps - own, {{"lr", Schedule::linear(value_at(rates(), own), -1.0 / 4096)},
                               {"step", Schedule::linear(own, 1)}});
    client.detach();
  }
  // Until this controller has done so many of its steps.
  static void wait_for_steps(Restarts& cluster, uint64_t steps) {
    while (cluster.controller().programs().at(0).runs_done < steps) cluster.pass(1ms);
  }
  // Attaches, has the rest of the losses and the states that come of them, and ends it. Adds how
  // many steps this controller has done of it.
  void expect_the_rest(Restarts& cluster, int own = 0) {
    const Client client = cluster.attach("visitor", "trainer");
    const Executable step = client.executable("walking");
    const std::optional<Repeat> repetition = step.repetition();
    ASSERT_TRUE(repetition);
    while (true) {
      const RepeatStatus status = repetition->status();
      EXPECT_EQ(status.steps, kSteps - own);
      if (!status.outputs.empty()) {
        EXPECT_EQ(static_cast<float>(status.outputs.at(0).value),
                  alone_.at(static_cast<size_t>(own + status.done - 1)));
      }
      if (status.ended) break;
      cluster.pass(2ms);
    }
    const RepeatStatus status = repetition->wait();
    EXPECT_EQ(status.done, kSteps - own);
    ASSERT_FALSE(status.outputs.empty());
    EXPECT_EQ(static_cast<float>(status.outputs[0].value), alone_.back());
    done_again_.push_back(cluster.controller().programs().at(0).runs_done);
    ASSERT_EQ(client.slices().size(), 1u);
    EXPECT_EQ(client.slices()[0].read_state("w").bytes, states_.bytes);
    // Its sources go on behind its last step.
    step.run({{"lr", 0.0f}, {"step", 0.0f}}).wait();
    client.close();
    cluster.pass(1s);
    EXPECT_EQ(cluster.controller().counts().total(), 0u);
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "programs"));
  }
  std::string log() const { return FolderTest::read(folder_ / "state/programs.jsonl"); }
  std::filesystem::path record() const {
    return *std::filesystem::directory_iterator(folder_ / "state" / "programs");
  }
  ProgramRecord state_of_record() const {
    return parse_record(FolderTest::read(record()), record().string());
  }
  std::filesystem::path checkpoints() const {
    return folder_ / "kept" / Checkpoints::escaped(own_user_name()) / "trainer";
  }

  std::filesystem::path text_;
  std::vector<float> alone_;
  HostTensor states_;
  std::vector<uint64_t> done_again_;
};

TEST_F(ResumedTest, ATextThatOnlyGrewIsReadAsItWas) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    const std::string text = FolderTest::read(text_);
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    cluster.pass(30ms);
    cluster.kill_controller();
    FolderTest::write("text.txt", text + "more");
    start(cluster);
    for (int i = 0; i < 20'000 && cluster.controller().programs().at(0).runs_done == 0; ++i)
      cluster.pass(1ms);
    cluster.end_executor(1);
    FolderTest::write("text.txt", text + "more and more");
    cluster.start_executor(1);
    expect_the_rest(cluster);
  });
}

TEST_F(ResumedTest, ATextThatWasChangedEndsItsProgramWhichSaysWhatWasExpected) {
  for (const bool is_restart : {true, false}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      const std::string text = FolderTest::read(text_);
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster);
      cluster.pass(30ms);
      if (is_restart) cluster.kill_controller();
      if (!is_restart) cluster.end_executor(1);
      std::string changed = text;
      changed[2000] = '#';
      FolderTest::write("text.txt", changed);
      if (is_restart) start(cluster);
      if (!is_restart) cluster.start_executor(1);
      for (int i = 0; i < 200; ++i) cluster.pass(100ms);
      std::string told = log();
      ProgramLogs& logs = cluster.controller().logs();
      if (const auto trainer = logs.find(own_user_name(), "trainer")) {
        for (const LoggedLine& line : logs.read(*trainer, 0).lines) told += line.text;
      }
      EXPECT_THAT(told, HasSubstr("is another text on host "));
      EXPECT_THAT(told,
                  HasSubstr(cat("expected 4000 bytes with the BLAKE2b hash ", content_hash(text))));
      EXPECT_THAT(told, HasSubstr(content_hash(changed)));
      FolderTest::write("text.txt", text);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, ARepeatedProgramGoesOnBehindARestartWithTheBitsThatItHasAlone) {
  const uint64_t seed = gangway::tests::test_seed();
  for (uint64_t round = 0; round < 12; ++round) {
    Rng rng(seed + round, 0x4E57);
    auto reactor = Reactor::make_simulated({.seed = seed + round});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster);
      const int kills = 1 + static_cast<int>(rng.below(3));
      for (int kill = 0; kill < kills; ++kill) {
        cluster.pass(std::chrono::microseconds(rng.below(120'000)));
        cluster.kill_controller();
        cluster.pass(std::chrono::milliseconds(rng.below(20'000)));
        cluster.start_controller(state(), options());
        const std::vector<ProgramCounts> programs = cluster.controller().programs();
        ASSERT_EQ(programs.size(), 1u);
        EXPECT_EQ(programs[0].name, "trainer");
        EXPECT_TRUE(programs[0].detached);
        for (int i = 0; i < 20'000 && cluster.controller().programs().at(0).runs_done == 0; ++i)
          cluster.pass(1ms);
      }
      expect_the_rest(cluster);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
  EXPECT_GT(std::set<uint64_t>(done_again_.begin(), done_again_.end()).size(), 3u)
      << "they went on from different checkpoints: " << ::testing::PrintToString(done_again_);
}

TEST_F(ResumedTest, WhatItGoesOnFromMayBeLostOrSpoilt) {
  enum class Lost { kAllFiles, kNewest, kOneBit, kNothing };
  for (const Lost lost : {Lost::kAllFiles, Lost::kNewest, Lost::kOneBit, Lost::kNothing}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      {
        // Whose files are of no use to the next one.
        begin(cluster);
        cluster.pass(1s);
        cluster.attach("visitor", "trainer").close();
        EXPECT_FALSE(CheckpointDir(checkpoints()).steps().empty());
      }
      begin(cluster);
      if (lost != Lost::kNothing) {
        const auto newest = [&] {
          return cluster.controller().programs()[0].checkpoint.value_or(StateVersion()).value;
        };
        while (newest() == 0) cluster.pass(1ms);
        for (const uint64_t first = newest(); newest() == first;) cluster.pass(1ms);
      }
      cluster.kill_controller();
      if (lost == Lost::kAllFiles) {
        std::filesystem::remove_all(checkpoints());
      } else if (lost != Lost::kNothing) {
        const std::vector<int64_t> steps = CheckpointDir(checkpoints()).steps();
        ASSERT_EQ(steps.size(), 2u);
        const std::filesystem::path newest = CheckpointDir(checkpoints()).folder_of(steps[1]);
        if (lost == Lost::kOneBit) {
          std::fstream file(newest / kModelFile, std::ios::in | std::ios::out | std::ios::binary);
          file.seekg(-1, std::ios::end);
          const auto last = static_cast<char>(file.peek() ^ 1);
          file.seekp(-1, std::ios::end);
          file.put(last);
        } else {
          for (const auto& file : std::filesystem::directory_iterator(newest))
            std::filesystem::resize_file(file.path(), 20);
        }
      }
      start(cluster);
      expect_the_rest(cluster);
      if (lost == Lost::kNewest || lost == Lost::kOneBit) {
        EXPECT_LT(done_again_.back(), kSteps);
      } else {
        EXPECT_EQ(done_again_.back(), kSteps);
      }
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, StepsOfTheClientAreNotRepeatedAndSoOneMustBeKeptBehindThem) {
  for (const bool is_kept : {true, false}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      // Runs of its own, which the checkpoint of version 10 has.
      begin(cluster, 5);
      while (cluster.controller().programs()[0].checkpoint.value_or(StateVersion()).value < 30)
        cluster.pass(1ms);
      cluster.kill_controller();
      if (!is_kept) std::filesystem::remove_all(checkpoints());
      start(cluster);
      if (is_kept) return expect_the_rest(cluster, 5);
      cluster.pass(1s);
      EXPECT_TRUE(cluster.controller().programs().empty());
      EXPECT_EQ(cluster.controller().counts().total(), 0u);
    });
    if (!is_kept) {
      EXPECT_THAT(log(), HasSubstr("it could not go on behind a restart of its controller: it was "
                                   "to go on from version 5 or a later one, and there is no "
                                   "checkpoint of it"));
      EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "programs"));
    }
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, ItWaitsForItsDevicesAndMayBeStoppedMeanwhile) {
  for (const bool stops : {true, false}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster);
      cluster.pass(40ms);
      cluster.kill_controller();
      cluster.end_executor(1);
      start(cluster);
      EXPECT_THAT(cluster.controller().programs().at(0).waits_for, HasSubstr("4 devices, for "));
      const Error early = error_of([&] { cluster.attach("visitor", "trainer"); });
      EXPECT_EQ(early.kind(), ErrorKind::kOverloaded);
      EXPECT_THAT(early.what(), HasSubstr("the program \"trainer\" of "));
      EXPECT_THAT(early.what(), HasSubstr("is brought back behind a restart of its controller"));
      EXPECT_THAT(early.hint(), HasSubstr("gangway ps"));
      // It outlives another restart.
      cluster.kill_controller();
      EXPECT_TRUE(std::filesystem::exists(record()));
      start(cluster);
      const Client onlooker = cluster.connect("onlooker");
      if (stops) {
        EXPECT_FALSE(onlooker.stop_program("trainer", 0));
        onlooker.close();
        cluster.pass(1s);
        EXPECT_EQ(cluster.controller().counts().total(), 0u);
        EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "programs"));
        return;
      }
      onlooker.close();
      cluster.start_executor(1);
      cluster.pass(8s);
      expect_the_rest(cluster);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, AHostThatIsLostWhileItIsBroughtBackIsWaitedForAndOneThatIsLostLaterToo) {
  for (uint64_t round = 0; round < 12; ++round) {
    Rng rng(gangway::tests::test_seed() + round, 0x4057);
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed() + round});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster);
      cluster.pass(40ms);
      cluster.kill_controller();
      cluster.start_controller(state(), options());
      while (cluster.names().size() < 2) cluster.pass(100us);
      cluster.pass(std::chrono::microseconds(rng.below(400)));
      cluster.end_executor(1);
      cluster.start_executor(1);
      cluster.pass(10s);
      expect_the_rest(cluster);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, AHostThatIsLostBehindARestartDoesNotEndTheProgram) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    cluster.pass(40ms);
    for (int round = 0; round < 2; ++round) {
      cluster.kill_controller();
      start(cluster);
      wait_for_steps(cluster, 15);
      cluster.end_executor(1);
      cluster.pass(100ms);
      EXPECT_THAT(cluster.controller().programs().at(0).waits_for, HasSubstr("4 devices"));
      cluster.start_executor(1);
      cluster.pass(100ms);
    }
    expect_the_rest(cluster);
  });
}

// On the devices that are left it takes fewer, with or without the lost host behind a restart.
TEST_F(ResumedTest, AProgramThatHasShrunkGoesOnBehindARestart) {
  for (const bool comes_back : {false, true}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster, 0, "trainer", {"data"});
      cluster.pass(40ms);
      cluster.end_executor(1);
      const auto devices = [&] { return cluster.controller().programs().at(0).devices; };
      while (devices() != 2) cluster.pass(1ms);
      cluster.attach("visitor", "trainer").detach();  // Its record is written again.
      cluster.pass(1ms);
      EXPECT_EQ(state_of_record().slices.at(0).shape.devices, 4u);
      cluster.kill_controller();
      if (comes_back) cluster.start_executor(1);
      start(cluster);
      cluster.pass(std::chrono::milliseconds(ResumedPrograms::kWholeWaitMs));
      EXPECT_EQ(devices(), comes_back ? 4u : 2u);
      const Client client = cluster.attach("visitor", "trainer");
      const RepeatStatus status = client.executable("walking").repetition()->wait();
      EXPECT_EQ(status.done, kSteps);
      ASSERT_FALSE(status.outputs.empty());
      EXPECT_NEAR(status.outputs[0].value, alone_.back(), 1e-4);
      client.close();
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

// The newest checkpoint does not have the other executable's state.
TEST_F(ResumedTest, AnExecutableThatIsYoungerThanTheNewestCheckpointComesAgain) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    {
      const Client client = cluster.connect("trainer");
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(walking(text_));
      slice.keep_checkpoints({.every = 10, .keep = 2});
      step.repeat(kSteps, {{"lr", rates()}, {"step", Schedule::linear(0, 1)}});
      while (!cluster.controller().programs()[0].checkpoint) cluster.pass(100us);
      ProgramBuilder b("another", Mesh{{{"data", 4}}});
      const Value z = b.state("z", zeros(f32()));
      b.update(z, z + 1.0);
      const Executable another = slice.compile(b.build());
      client.detach();
    }
    EXPECT_EQ(cluster.controller().programs().at(0).checkpoint, StateVersion(10));
    cluster.kill_controller();
    start(cluster);
    expect_the_rest(cluster);
  });
}

// With names, slices and numbers that are as long, as many and as large as its calls let them be.
TEST_F(ResumedTest, WhatTheCallsOfAProgramAcceptIsBroughtBackAndWhatIsBeyondIsRefusedThere) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  const std::string name(kProgramNameBytesMax, 'n');
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    EXPECT_EQ(error_of([&] { cluster.connect(name + "n"); }).kind(), ErrorKind::kInvalid);
    EXPECT_EQ(error_of([&] { cluster.connect("caf\xE9"); }).kind(), ErrorKind::kInvalid);
    {
      const Client client = cluster.connect(name);
      const Slice slice = client.allocate({.devices = 4});
      std::vector<Slice> others;
      for (int i = 0; i < 300; ++i) others.push_back(client.allocate({.devices = 1}));
      const Executable step =
          slice.compile(walking(text_, std::string(ProgramRecord::kExecutableNameBytesMax, 'w')));
      EXPECT_EQ(
          error_of([&] { slice.keep_checkpoints({.every = kCheckpointEveryMax + 1}); }).kind(),
          ErrorKind::kInvalid);
      slice.keep_checkpoints({.every = kCheckpointEveryMax});
      step.repeat(kSteps, {{"lr", rates()}, {"step", Schedule::linear(0, 1)}});
      client.detach();
    }
    cluster.pass(1ms);
    EXPECT_EQ(state_of_record().slices.size(), 301u);
    cluster.kill_controller();
    start(cluster);
    wait_for_steps(cluster, kSteps);
    EXPECT_EQ(cluster.controller().programs()[0].name, name);
    cluster.attach("visitor", name).close();
  });
}

// What one program has left is of no use, and costs no other one.
TEST_F(ResumedTest, ARecordThatCantBeReadCostsItsOwnProgramOnly) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    cluster.pass(40ms);
    cluster.kill_controller();
    const std::string other = FolderTest::read(record());
    FolderTest::write("state/programs/ann.spoilt", other.substr(0, other.size() / 2));
    start(cluster);
    expect_the_rest(cluster);
  });
  EXPECT_TRUE(std::filesystem::exists(folder_ / "state" / "set_aside" / "ann.spoilt"));
}

TEST_F(ResumedTest, AProgramThatItsClientRunsIsNotBroughtBack) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  std::vector<std::string> told;
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    const auto is_kept = [&] {
      cluster.pass(1s);
      const std::filesystem::path folder = folder_ / "state" / "programs";
      return std::filesystem::exists(folder) && !std::filesystem::is_empty(folder);
    };
    {
      const Client client = cluster.connect("trainer", &told);
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(walking(text_));
      const auto repeat = [&](int64_t steps) {
        return step.repeat(steps, {{"lr", rates()}, {"step", Schedule::linear(0, 1)}});
      };
      repeat(5).wait();
      EXPECT_FALSE(is_kept()) << "it has no checkpoints";
      slice.keep_checkpoints({.every = 10});
      step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait();
      EXPECT_FALSE(is_kept()) << "nothing is repeated";
      repeat(5).wait();
      EXPECT_TRUE(is_kept());
      step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait();
      EXPECT_FALSE(is_kept()) << "its client has run it since";
      const Repeat long_one = repeat(1'000'000);
      EXPECT_TRUE(is_kept());
      EXPECT_TRUE(told.empty());
      slice.write_state("w", HostTensor::of<float>({8, 4}, std::vector<float>(32, 1.0f)));
      EXPECT_FALSE(is_kept()) << "its client has written the states";
      ASSERT_EQ(told.size(), 1u);
      EXPECT_THAT(told[0], HasSubstr("would not go on behind a restart of its controller, until it "
                                     "is repeated again"));
      long_one.cancel();
      long_one.wait();
      const Repeat other = repeat(1'000'000);
      EXPECT_TRUE(is_kept());
      other.cancel();
      EXPECT_TRUE(is_kept()) << "with the steps that it has come to";
      const ProgramRecord record = state_of_record();
      EXPECT_EQ(record.repetition.steps, other.wait().done);
      repeat(1'000'000);
      client.detach();
    }
    EXPECT_TRUE(is_kept());
    EXPECT_EQ(std::filesystem::status(record()).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    cluster.kill_controller();
    cluster.start_controller(state());
    cluster.pass(10s);
    EXPECT_TRUE(cluster.controller().programs().empty());
    EXPECT_FALSE(is_kept());
  });
  EXPECT_THAT(log(), HasSubstr("this controller has no folder for them"));
}

}  // namespace
}  // namespace gangway
