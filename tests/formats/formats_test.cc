// Checkpoints and state folders that earlier versions have written: README.md says which, and how
// to write the next one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "controller/service/state_dir.h"
#include "gangway.h"
#include "ir/wire/wire.h"
#include "programs/train/checkpoint.h"
#include "runtime/os/temp_dir.h"
#include "sim/sim_cluster.h"
#include "tests/support/places.h"

namespace gangway::formats_test {
namespace {

namespace fs = std::filesystem;
using programs::TrainingPosition;

constexpr int kSteps = 4;
constexpr const char* kName = "trainer";
constexpr const char* kOwner = "ann";
// Each state counts in steps of its own: its number in this list, and one more.
constexpr const char* kStates[] = {"params.w", "adamw.m.w", "adamw.v.w"};
// The names that a later version gives them.
constexpr const char* kRenamedStates[] = {"params.w", "adamw.m.params.w", "adamw.v.params.w"};

// The program also has "params.layers.q", which stacks three layers, and "params.half" in bf16.
Program counting(std::span<const char* const> names) {
  ProgramBuilder b("counting", Mesh{{{"data", 2}}});
  const Value by = b.input("by", f32());
  double step = 1;
  for (const char* const name : names) {
    const Value state = b.state(name, zeros(f32({4, 2})), {{"data", shard(0)}});
    b.update(state, state + by * step++);
  }
  StateSpec layers = zeros(f32({3, 2}));
  layers.stacked = {.first = 0, .count = 3, .name_tail = 1};
  const Value q = b.state("params.layers.q", layers);
  b.update(q, q + by * 10.0);
  const Value half = b.state("params.half", zeros(Type{DType::kBF16, {2}}));
  b.update(half, half + convert(by, DType::kBF16));
  b.output("sum", sum(q));
  return b.build();
}

std::vector<float> floats_of(const Slice& slice, const std::string& name) {
  const HostTensor tensor = slice.read_state(name);
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

void expect_counted(const Slice& slice, std::span<const char* const> names) {
  float step = 1;
  for (const char* const name : names)
    EXPECT_EQ(floats_of(slice, name), std::vector<float>(8, kSteps * step++)) << name;
  EXPECT_EQ(floats_of(slice, "params.layers.q"), std::vector<float>(6, kSteps * 10));
  const std::vector<std::byte> four = {std::byte{0x80}, std::byte{0x40}};  // 4 in bf16.
  const std::vector<std::byte> half = slice.read_state("params.half").bytes;
  EXPECT_EQ(half, (std::vector<std::byte>{four[0], four[1], four[0], four[1]}));
}

template <class Body>
void with_cluster(const fs::path& kept, Body body) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 1, .checkpoint_folder = kept.string()});
    const Client client = cluster.connect("client", {.name = kName});
    body(cluster, client);
    client.close();
  });
}

void wait(int64_t ns) {
  WaitQueue().wait_until_ns("for time to pass", Reactor::current().clock().now_ns() + ns);
}

// The folder of the only checkpoint below `folder`.
fs::path checkpoint_below(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == "step-00000004") return entry.path();
  }
  return {};
}

void write_state_folder(const fs::path& folder, ProgramRecord record) {
  record.owner = kOwner;
  StateDir state(folder);
  state.write_hosts(std::vector<KeptHost>{{"host-0", kOwner}, {"caf\xC3\xA9", "bob"}});
  state.write_program(kOwner, kName, print_record(record));
  state.append_to_programs(
      "{\"time\":\"2026-01-02T03:04:05.678Z\",\"event\":\"began\",\"owner\":\"ann\","
      "\"program\":\"trainer\",\"client\":1}\n");
}

void write_formats(const fs::path& to) {
  const TempDir root;
  with_cluster(root.path(), [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(counting(kStates));
    programs::keep_checkpoints(slice, kSteps, {.step = 0, .seed = 7, .data = "d", .model = "m"});
    step.repeat(kSteps, {{"by", Schedule::linear(1, 0)}}).wait();
    while (client.status().programs.at(0).checkpoint == 0) wait(1'000'000);
    programs::save_checkpoint(
        slice, to / "checkpoints",
        {.step = kSteps, .position = 9, .seed = 7, .data = "d", .model = "m"});
    const auto record = cluster.controller.controller().programs().record_of(SessionId(1));
    ASSERT_TRUE(record);
    write_state_folder(to / "state", *record);
  });
  fs::create_directories(to / "kept");
  fs::copy(checkpoint_below(root.path()), to / "kept/step-00000004", fs::copy_options::recursive);
}

std::vector<fs::path> versions() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(tests::source_folder() + "/tests/formats")) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

TEST(FormatsTest, TheFormatOfThisVersionIsWritten) {
  const char* const to = std::getenv("GW_WRITE_FORMATS");
  const TempDir elsewhere;
  const fs::path folder = to == nullptr ? elsewhere.path() / "formats" : fs::path(to);
  write_formats(folder);
  EXPECT_TRUE(fs::exists(folder / "kept/step-00000004/model.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "checkpoints/step-00000004/optimizer.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "state/programs/ann.trainer"));
}

TEST(FormatsTest, ATrainingGoesOnFromTheCheckpointsOfEveryVersion) {
  ASSERT_FALSE(versions().empty());
  for (const fs::path& version : versions()) {
    for (const char* const folder : {"checkpoints/step-00000004", "kept/step-00000004"}) {
      SCOPED_TRACE(version / folder);
      with_cluster({}, [&](SimCluster&, const Client& client) {
        const Slice slice = client.allocate({.devices = 2});
        const Executable step = slice.compile(counting(kStates));
        const TrainingPosition at = programs::load_checkpoint(slice, version / folder);
        EXPECT_EQ(at.step, kSteps);
        EXPECT_EQ(at.seed, 7u);
        EXPECT_EQ(at.data, "d");
        EXPECT_EQ(at.model, "m");
        expect_counted(slice, kStates);
      });
    }
  }
}

TEST(FormatsTest, MomentsThatHaveAnotherNameNowAreFoundInOldCheckpoints) {
  for (const char* const folder : {"checkpoints/step-00000004", "kept/step-00000004"}) {
    SCOPED_TRACE(folder);
    with_cluster({}, [&](SimCluster&, const Client& client) {
      const Slice slice = client.allocate({.devices = 2});
      const Executable step = slice.compile(counting(kRenamedStates));
      const std::string root = tests::source_folder() + "/tests/formats/first/";
      programs::load_checkpoint(slice, root + folder);
      expect_counted(slice, kRenamedStates);
    });
  }
}

TEST(FormatsTest, AControllerBringsBackTheProgramsOfEveryVersion) {
  for (const fs::path& version : versions()) {
    SCOPED_TRACE(version);
    const TempDir copy;
    fs::copy(version / "state", copy.path() / "state", fs::copy_options::recursive);
    const StateDir state(copy.path() / "state");
    EXPECT_EQ(state.hosts(), (std::vector<KeptHost>{{"host-0", kOwner}, {"caf\xC3\xA9", "bob"}}));
    ASSERT_EQ(state.programs().size(), 1u);
    const ProgramRecord& record = state.programs()[0];
    EXPECT_EQ(record.name, kName);
    EXPECT_EQ(record.owner, kOwner);
    EXPECT_TRUE(record.is_checkpointed);
    EXPECT_EQ(record.recovery.every, uint64_t{kSteps});
    EXPECT_EQ(record.recovery.metadata.at("seed"), "7");
    EXPECT_EQ(record.repetition.steps, kSteps);
    EXPECT_EQ(record.repetition.first_version, 0u);
    ASSERT_EQ(record.executables.size(), 1u);
    const Program program = program_from_wire(*record.executables[0].program);
    with_cluster({}, [&](SimCluster&, const Client& client) {
      const Slice slice = client.allocate({.devices = record.slices.at(0).shape.devices});
      const Executable step = slice.compile(program);
      for (int i = 0; i < kSteps; ++i) step.run({{"by", 1.0f}}).wait();
      expect_counted(slice, kStates);
    });
  }
}

}  // namespace
}  // namespace gangway::formats_test
