// Users start and end a controller and an executor: in any order, repeatedly, by signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Program twice() {
  ProgramBuilder b("twice", Mesh{{{"data", 2}}});
  b.output("y", sum(b.input("x", f32({8}), {{"data", shard(0)}}) * 2.0, {0}));
  return b.build();
}

constexpr int64_t kSteps = 3000;

Program walking() {
  const Mesh mesh{{{"data", 2}}};
  ProgramBuilder b("walking", mesh);
  const Value w = b.state("w", zeros(f32({64, 64})), {{"data", shard(0)}});
  const Value lr = b.input("lr", f32()), step = b.input("step", f32());
  const Value next = w - (w * 1.5 - sin(step * 0.01)) * lr;
  b.update(w, next);
  b.output("loss", mean(next * next));
  return b.build();
}

Repeat repeat(const Slice& slice) {
  return slice.compile(walking()).repeat(
      kSteps, {{"lr", Schedule::linear(0.5, -1e-5)}, {"step", Schedule::linear(0, 1)}});
}

// The loss and the states after all steps.
struct Walked {
  double loss = 0;
  std::vector<std::byte> states;
};

class RestartTest : public testing::Test {
 protected:
  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& said) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments), .output_file = said.path()});
  }
  ChildProcess start_executor() const {
    return start({"executor", "--connect", address_, "--name", "e7", "--devices", "2", "--memory",
                  std::to_string(64 << 20)},
                 executor_said_);
  }
  // All controllers of a test keep their state in one folder.
  ChildProcess start_controller(const std::string& listen, const AnonymousFile& said) const {
    return start({"controller", "--listen", listen, "--log-level", "info", "--state-dir", state_},
                 said);
  }
  // Starts a controller that ends at once because of its folder; returns its error.
  std::string refused(const std::string& listen) const {
    const AnonymousFile said("controller");
    ChildProcess controller = start_controller(listen, said);
    EXPECT_EQ(controller.wait().code, 2);
    return output_of(said);
  }
  Client client(const std::string& name) const {
    return connect(address_, {.name = name, .on_warning = [](const std::string&) {}});
  }

  // Runs a program as soon as the executor has registered.
  void run_once() const {
    const Client client = connect(address_);
    std::optional<float> sum;
    EXPECT_TRUE(eventually([&] {
      try {
        const Executable step = client.allocate({.devices = 2}).compile(twice());
        sum = step.run({{"x", HostTensor::of<float>({8}, std::vector<float>(8, 1.0f))}})["y"]
                  .item<float>();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kBug) throw;
      }
      return sum.has_value();
    })) << output_of(executor_said_);
    EXPECT_EQ(sum, 16.0f);
    const ClusterStatus status = client.status();
    ASSERT_EQ(status.hosts.size(), 1u);
    EXPECT_EQ(status.hosts[0].name, "e7");
  }
  Walked walk_alone() const {
    const Client alone = client("alone");
    const Slice slice = alone.allocate({.devices = 2});
    const double loss = repeat(slice).wait().outputs.at(0).value;
    return {loss, slice.read_state("w").bytes};
  }

  // Returns when the next controller has a checkpoint to go on from.
  void detach_a_trainer() const {
    const Client trainer = client("trainer");
    const Slice slice = trainer.allocate({.devices = 2});
    const Executable unused = slice.compile(walking(), {.name = "unused"});
    slice.keep_checkpoints({.every = 100});
    const Repeat repeated = repeat(slice);
    trainer.detach();
    const Client onlooker = connect(address_);
    EXPECT_TRUE(eventually(
        [&] {
          for (const ProgramStatus& program : onlooker.status().programs) {
            if (program.name == "trainer" && program.checkpoint > 0) return true;
          }
          return false;
        },
        kForFiles))
        << output_of(controller_said_);
    EXPECT_TRUE(eventually([&] { return has_recorded_a_checkpoint(); }, kForFiles));
  }
  // True if the program's record names a checkpoint, from which the next controller goes on. A
  // checkpoint that is being written does not count.
  bool has_recorded_a_checkpoint() const {
    std::ifstream in(folder_.path() / "state" / "programs" / (own_user_name() + ".trainer"));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    return text.find("\"is_checkpointed\":true") != std::string::npos;
  }
  Walked walked_by_the_trainer(const AnonymousFile& said) const {
    std::optional<Client> client;
    EXPECT_TRUE(eventually([&] {
      try {
        client = attach(address_, "trainer");
      } catch (const Error& error) {
        // The controller is not there yet, or the program is not resumed yet.
        if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kOverloaded)
          throw;
      }
      return client.has_value();
    })) << output_of(said);
    const std::optional<Repeat> repetition = client.value().executable("walking").repetition();
    const RepeatStatus status = repetition.value().wait();
    EXPECT_EQ(status.done, kSteps);
    Walked walked{status.outputs.at(0).value, client->slices().at(0).read_state("w").bytes};
    client->close();
    return walked;
  }

  TempDir folder_;
  const std::string address_ = "unix:" + (folder_.path() / "gangway.sock").string();
  const std::string state_ = (folder_.path() / "state").string();
  const AnonymousFile controller_said_{"controller"}, executor_said_{"executor"};
};

TEST_F(RestartTest, AnExecutorThatWaitsForItsControllerEndsOnASignal) {
  for (const int number : {SIGINT, SIGTERM}) {
    const AnonymousFile said("executor");
    ChildProcess executor = start({"executor", "--connect", address_}, said);
    EXPECT_TRUE(eventually(
        [&] { return output_of(said).find("waits for its controller") != std::string::npos; }));
    executor.signal(number);
    EXPECT_TRUE(executor.wait().ok()) << output_of(said);
  }
}

TEST_F(RestartTest, ADetachedProgramAndAnExecutorGoOnWhenTheirControllerIsKilled) {
  ChildProcess executor = start_executor();
  EXPECT_TRUE(eventually([&] {
    return output_of(executor_said_).find("waits for its controller") != std::string::npos;
  })) << output_of(executor_said_);
  Walked alone;
  {
    ChildProcess controller = start_controller(address_, controller_said_);
    run_once();
    EXPECT_THAT(refused(address_ + "-2"),
                AllOf(HasSubstr("state folder: " + state_ + " is in use by another controller"),
                      HasSubstr("choose another folder with --state-dir")));
    alone = walk_alone();
    controller.signal(SIGTERM);
    EXPECT_TRUE(controller.wait().ok()) << output_of(controller_said_);
  }
  {
    ChildProcess controller = start_controller(address_, controller_said_);
    run_once();
    detach_a_trainer();
    controller.signal(SIGKILL);
    controller.wait();
  }
  const AnonymousFile said("controller");
  ChildProcess controller = start_controller(address_, said);
  const Walked walked = walked_by_the_trainer(said);
  EXPECT_EQ(walked.loss, alone.loss);
  EXPECT_EQ(walked.states, alone.states);
  EXPECT_THAT(output_of(said), AllOf(HasSubstr("a program goes on that an earlier controller had"),
                                     Not(HasSubstr("version=0"))));

  const Client onlooker = connect(address_);
  executor.signal(SIGTERM);
  EXPECT_TRUE(executor.wait().ok()) << output_of(executor_said_);
  EXPECT_TRUE(eventually([&] { return onlooker.status().hosts.empty(); })) << "it said goodbye";
  EXPECT_THAT(output_of(executor_said_),
              AllOf(HasSubstr("controller=" + address_), HasSubstr("registered after waiting")));
  controller.signal(SIGTERM);
  EXPECT_TRUE(controller.wait().ok()) << output_of(said);
  const std::string hosts = state_ + "/hosts.jsonl";
  std::ofstream(hosts, std::ios::app) << "{\"name\":";
  std::ofstream(state_ + "/programs/ann.spoilt") << "no record";
  const AnonymousFile warned("controller");
  ChildProcess last = start_controller(address_, warned);
  EXPECT_TRUE(eventually([&] { return output_of(warned).find("listening") != std::string::npos; }))
      << output_of(warned);
  EXPECT_THAT(output_of(warned), AllOf(HasSubstr(hosts + ":3 is corrupt: the line has no end"),
                                       HasSubstr("set_aside/hosts.jsonl"),
                                       HasSubstr("programs/ann.spoilt is corrupt: "),
                                       HasSubstr("set_aside/ann.spoilt")));
  last.signal(SIGTERM);
  EXPECT_TRUE(last.wait().ok()) << output_of(warned);
}

TEST_F(RestartTest, ADetachedProgramGoesOnBehindAControllerThatWasToldToEnd) {
  const ChildProcess executor = start_executor();
  {
    ChildProcess controller = start_controller(address_, controller_said_);
    run_once();
    detach_a_trainer();
    controller.signal(SIGTERM);
    EXPECT_TRUE(controller.wait().ok()) << output_of(controller_said_);
  }
  const AnonymousFile said("controller");
  const ChildProcess controller = start_controller(address_, said);
  const Walked walked = walked_by_the_trainer(said);
  const Walked alone = walk_alone();
  EXPECT_EQ(walked.loss, alone.loss);
  EXPECT_EQ(walked.states, alone.states);
}

TEST_F(RestartTest, AControllerThatIsToldToEndLetsProgramsEndFirstAndBlamesNoHost) {
  ChildProcess executor = start_executor();
  ChildProcess controller = start_controller(address_, controller_said_);
  run_once();
  const Client heeds = client("heeds"), does_not = client("does not");
  std::optional<Error> error;
  int64_t saved = 0;
  {
    const Executable others = does_not.allocate({.devices = 2}).compile(twice());
    const Executable step = heeds.allocate({.devices = 2}).compile(twice());
    const HostTensor ones = HostTensor::of<float>({8}, std::vector<float>(8, 1.0f));
    EXPECT_FALSE(heeds.stop_requested());
    controller.signal(SIGTERM);
    EXPECT_TRUE(eventually([&] { return heeds.stop_requested(); }));
    for (; saved < 20; ++saved) EXPECT_EQ(step.run({{"x", ones}})["y"].item<float>(), 16.0f);
    heeds.close();
    EXPECT_TRUE(controller.wait().ok()) << output_of(controller_said_);
    EXPECT_TRUE(eventually([&] {
      try {
        others.run({{"x", ones}}).wait();
      } catch (const Error& why) {
        error = why;
      }
      return error.has_value();
    })) << "it runs on without a controller";
  }
  EXPECT_EQ(saved, 20);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("the controller is gone: it was told to end"),
                                   Not(HasSubstr("host \""))));
  EXPECT_THAT(output_of(controller_said_), Not(HasSubstr("host lost")));
}

TEST_F(RestartTest, AControllerWhoseTerminalGoesLetsProgramsEndFirst) {
  const ChildProcess executor = start_executor();
  ChildProcess controller = start_controller(address_, controller_said_);
  run_once();
  const Client heeds = client("heeds");
  {
    const Executable step = heeds.allocate({.devices = 2}).compile(twice());
    const HostTensor ones = HostTensor::of<float>({8}, std::vector<float>(8, 1.0f));
    EXPECT_FALSE(heeds.stop_requested());  // Only a program that has looked before is waited for.
    controller.signal(SIGHUP);
    EXPECT_TRUE(eventually([&] { return heeds.stop_requested(); }));
    controller.signal(SIGHUP);  // The shell sends one too.
    for (int saved = 0; saved < 20; ++saved)
      EXPECT_EQ(step.run({{"x", ones}})["y"].item<float>(), 16.0f);
    heeds.close();
  }
  EXPECT_TRUE(controller.wait().ok()) << output_of(controller_said_);
}

TEST_F(RestartTest, AnExecutorThatNohupHasStartedOutlivesItsTerminal) {
  ChildProcess executor({.arguments = {"/bin/sh", "-c", "trap '' HUP; exec \"$0\" \"$@\"",
                                       tests::gangway_tool(), "executor", "--connect", address_,
                                       "--name", "e7", "--memory", std::to_string(64 << 20)},
                         .output_file = executor_said_.path()});
  EXPECT_TRUE(eventually([&] {
    return output_of(executor_said_).find("waits for its controller") != std::string::npos;
  })) << output_of(executor_said_);
  executor.signal(SIGHUP);
  executor.signal(SIGHUP);
  ChildProcess controller = start_controller(address_, controller_said_);
  const Client client = connect(address_);
  EXPECT_TRUE(eventually([&] { return client.status().hosts.size() == 1; }))
      << output_of(executor_said_);
  client.close();
  executor.signal(SIGTERM);
  EXPECT_TRUE(executor.wait().ok()) << output_of(executor_said_);
  controller.signal(SIGTERM);
  EXPECT_TRUE(controller.wait().ok()) << output_of(controller_said_);
}

TEST_F(RestartTest, QuotasAreThoseOfTheConfigWhenItWasReadLast) {
  const std::string config = (folder_.path() / "config.json").string();
  const auto write = [&](const std::string& text) { std::ofstream(config) << text; };
  write(R"({"quota_of_others": {"programs": 0}})");
  const ChildProcess executor = start_executor();
  ChildProcess controller =
      start({"controller", "--listen", address_, "--log-level", "info", "--config", config},
            controller_said_);
  const Client client = connect(address_);
  EXPECT_TRUE(eventually([&] { return client.status().hosts.size() == 1; }));
  const auto allocates = [&] {
    try {
      client.allocate({.devices = 2});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("is 0 programs with slices"));
      return false;
    }
    return true;
  };
  EXPECT_FALSE(allocates());
  write("{\"quota_of_others\": {}, \"x\"");
  controller.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] {
    return output_of(controller_said_).find("the quotas stay as they were") != std::string::npos;
  }));
  EXPECT_FALSE(allocates());
  write("{}");
  controller.signal(SIGHUP);
  EXPECT_TRUE(eventually(allocates)) << output_of(controller_said_);
  client.close();
  controller.signal(SIGTERM);
  EXPECT_TRUE(controller.wait().ok());
}

}  // namespace
}  // namespace gangway
