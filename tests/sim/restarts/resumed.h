// Expects that a program that the controller repeats, with checkpoints, on a cluster whose
// controller is restarted, has the results that it has without a restart.
//
// Threads: makes reactors of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "controller/programs/checkpoints.h"
#include "gangway.h"
#include "runtime/os/user.h"
#include "tests/sim/restarts/restarts.h"

namespace gangway::restarts_test {

// The result of a step depends on the states, on its number, on a schedule and on its place in a
// text.
inline Program walking(const std::filesystem::path& text, const std::string& name = "walking") {
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
      cluster.pass(std::chrono::seconds(8));
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
    cluster.pass(std::chrono::seconds(8));
  }
  // Begins a trainer, and restarts the controller with too few hosts for it.
  void restart_without_a_host(Restarts& cluster) const {
    start(cluster);
    begin(cluster);
    cluster.pass(std::chrono::milliseconds(40));
    cluster.kill_controller();
    cluster.end_executor(1);
    start(cluster);
  }
  // Begins a trainer and detaches it as soon as it is repeated. Its client runs the first `own`
  // steps itself.
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
  // Waits until this controller has done `steps` steps of the program.
  static void wait_for_steps(Restarts& cluster, uint64_t steps) {
    while (cluster.controller().program_counts().at(0).runs_done < steps)
      cluster.pass(std::chrono::milliseconds(1));
  }
  // Attaches, checks the remaining losses and the last states, and closes the program. Appends the
  // number of its steps that this controller has done to done_again_.
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
      cluster.pass(std::chrono::milliseconds(2));
    }
    const RepeatStatus status = repetition->wait();
    EXPECT_EQ(status.done, kSteps - own);
    ASSERT_FALSE(status.outputs.empty());
    EXPECT_EQ(static_cast<float>(status.outputs[0].value), alone_.back());
    done_again_.push_back(cluster.controller().program_counts().at(0).runs_done);
    ASSERT_EQ(client.slices().size(), 1u);
    EXPECT_EQ(client.slices()[0].read_state("w").bytes, states_.bytes);
    // The program's sources continue after its last step.
    step.run({{"lr", 0.0f}, {"step", 0.0f}}).wait();
    client.close();
    cluster.pass(std::chrono::seconds(1));
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

}  // namespace gangway::restarts_test
