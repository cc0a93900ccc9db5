// A controller and an executor as users start and end them: in any order, again, by signals.
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

Program twice() {
  ProgramBuilder b("twice", Mesh{{{"data", 2}}});
  b.output("y", sum(b.input("x", f32({8}), {{"data", shard(0)}}) * 2.0, {0}));
  return b.build();
}

class RestartTest : public testing::Test {
 protected:
  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& said) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments), .output_file = said.path()});
  }
  ChildProcess start_controller() const {
    return start({"controller", "--listen", address_}, controller_said_);
  }

  // Once the executor is there.
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

  // What the next controller goes on from; not one that is being written beside it.
  bool has_recorded_a_checkpoint() const {
    std::ifstream in(folder_.path() / "state" / "programs" / (own_user_name() + ".trainer"));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    return text.find("\"is_checkpointed\":true") != std::string::npos;
  }

  TempDir folder_;
  const std::string address_ = "unix:" + (folder_.path() / "gangway.sock").string();
  const AnonymousFile controller_said_{"controller"}, executor_said_{"executor"};
};

TEST_F(RestartTest, AnExecutorWaitsForItsControllerAndForTheNext) {
  ChildProcess executor = start({"executor", "--connect", address_, "--name", "e7", "--devices",
                                 "2", "--memory", std::to_string(64 << 20)},
                                executor_said_);
  EXPECT_TRUE(eventually([&] {
    return output_of(executor_said_).find("waits for its controller") != std::string::npos;
  })) << output_of(executor_said_);
  for (const int number : {SIGKILL, SIGTERM}) {
    ChildProcess controller = start_controller();
    run_once();
    controller.signal(number);
    const ExitStatus end = controller.wait();
    EXPECT_TRUE(number == SIGKILL || end.ok()) << to_string(end) << output_of(controller_said_);
  }
  ChildProcess controller = start_controller();
  run_once();
  const Client client = connect(address_);
  executor.signal(SIGTERM);
  EXPECT_TRUE(executor.wait().ok()) << output_of(executor_said_);
  EXPECT_TRUE(eventually([&] { return client.status().hosts.empty(); })) << "it has said goodbye";
  EXPECT_THAT(output_of(executor_said_),
              AllOf(HasSubstr("controller=" + address_), HasSubstr("registered after waiting")));
}

TEST_F(RestartTest, AnExecutorThatWaitsEndsWhenItIsTold) {
  for (const int number : {SIGINT, SIGTERM}) {
    const AnonymousFile said("executor");
    ChildProcess executor = start({"executor", "--connect", address_}, said);
    EXPECT_TRUE(eventually(
        [&] { return output_of(said).find("waits for its controller") != std::string::npos; }));
    executor.signal(number);
    EXPECT_TRUE(executor.wait().ok()) << output_of(said);
  }
}

TEST_F(RestartTest, AStateFolderServesOneControllerAtATimeAndIsReadByTheNext) {
  const std::filesystem::path state = folder_.path() / "state";
  const auto ended = [&](const std::string& listen) {
    const AnonymousFile said("controller");
    ChildProcess child =
        start({"controller", "--listen", listen, "--state-dir", state.string()}, said);
    EXPECT_EQ(child.wait().code, 2);
    return output_of(said);
  };
  ChildProcess executor = start({"executor", "--connect", address_, "--name", "e7", "--devices",
                                 "2", "--memory", std::to_string(64 << 20)},
                                executor_said_);
  for (int round = 0; round < 2; ++round) {
    ChildProcess controller = start(
        {"controller", "--listen", address_, "--state-dir", state.string()}, controller_said_);
    run_once();
    EXPECT_THAT(ended(address_ + "-2"), AllOf(HasSubstr("state folder: " + state.string() +
                                                        " is in use by another "
                                                        "controller"),
                                              HasSubstr("choose another folder with --state-dir")));
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(state / "hosts.jsonl"); }));
    controller.signal(SIGTERM);
    EXPECT_TRUE(controller.wait().ok()) << output_of(controller_said_);
  }
  const std::string hosts = (state / "hosts.jsonl").string();
  std::ofstream(hosts, std::ios::app) << "{\"name\":";
  EXPECT_THAT(ended(address_), AllOf(HasSubstr(hosts + ":3 is corrupt: the line has no end"),
                                     HasSubstr("put a copy of the file back, or remove it")));
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

TEST_F(RestartTest, ADetachedProgramGoesOnWhenItsControllerIsKilled) {
  const std::vector<std::string> command = {"controller",
                                            "--listen",
                                            address_,
                                            "--log-level",
                                            "info",
                                            "--state-dir",
                                            (folder_.path() / "state").string()};
  const auto repeat = [](const Slice& slice) {
    return slice.compile(walking()).repeat(
        kSteps, {{"lr", Schedule::linear(0.5, -1e-5)}, {"step", Schedule::linear(0, 1)}});
  };
  ChildProcess executor = start({"executor", "--connect", address_, "--name", "e7", "--devices",
                                 "2", "--memory", std::to_string(64 << 20)},
                                executor_said_);
  double loss = 0;
  std::vector<std::byte> states;
  {
    ChildProcess controller = start(command, controller_said_);
    const auto named = [this](const char* name) {
      return connect(address_, {.name = name, .on_warning = [](const std::string&) {}});
    };
    run_once();
    {
      const Client alone = named("alone");
      const Slice slice = alone.allocate({.devices = 2});
      loss = repeat(slice).wait().outputs.at(0).value;
      states = slice.read_state("w").bytes;
    }
    const Client client = named("trainer");
    const Slice slice = client.allocate({.devices = 2});
    const Executable unused = slice.compile(walking(), {.name = "unused"});
    slice.keep_checkpoints({.every = 100});
    const Repeat repeated = repeat(slice);
    client.detach();
    const Client onlooker = connect(address_);
    EXPECT_TRUE(eventually([&] {
      for (const ProgramStatus& program : onlooker.status().programs) {
        if (program.name == "trainer" && program.checkpoint > 0) return true;
      }
      return false;
    })) << output_of(controller_said_);
    EXPECT_TRUE(eventually([&] { return has_recorded_a_checkpoint(); }));
    controller.signal(SIGKILL);
    controller.wait();
  }
  const AnonymousFile said("controller");
  ChildProcess controller = start(command, said);
  std::optional<Client> client;
  EXPECT_TRUE(eventually([&] {
    try {
      client = attach(address_, "trainer");
    } catch (const Error& error) {
      // It is not there yet, or its steps do not go on yet.
      if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kOverloaded) throw;
    }
    return client.has_value();
  })) << output_of(said);
  ASSERT_TRUE(client);
  const std::optional<Repeat> repetition = client->executable("walking").repetition();
  ASSERT_TRUE(repetition);
  const RepeatStatus status = repetition->wait();
  EXPECT_EQ(status.done, kSteps);
  EXPECT_EQ(status.outputs.at(0).value, loss);
  EXPECT_EQ(client->slices().at(0).read_state("w").bytes, states);
  EXPECT_THAT(output_of(said), HasSubstr("a program goes on that an earlier controller had"));
  EXPECT_THAT(output_of(said), testing::Not(HasSubstr("version=0")));
  client->close();
}

}  // namespace
}  // namespace gangway
