// Programs with dropless experts that have too little room: the controller compiles them again, and
// their runs are as if they had had it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/objects.h"
#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/thread.h"
#include "tests/support/error_of.h"
#include "tests/support/recovery/routed_rows.h"

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
  Value next = log * 10.0 + n;
  b.update(log, next);
  b.output("log", next);
  b.output("y", sum(through_experts(x, choice, w + 1.0, bound)));
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

class TooLittleRoomTest : public testing::Test {
 protected:
  Client client_ = connect("local:2x1", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice_ = client_.allocate({.devices = 2});
  Mesh mesh_ = slice_.mesh({{"expert", 2}});
};

TEST_F(TooLittleRoomTest, ARunReleasesItsArgumentsOnceItsEndIsKnown) {
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

TEST_F(TooLittleRoomTest, ARunWithTooLittleRoomRunsAgainWithThoseBehindItInTheirOrder) {
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

TEST_F(TooLittleRoomTest, StatesAreReadAndWrittenBehindRunsThatRunAgain) {
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
TEST_F(TooLittleRoomTest, ARunThatRunsAgainReadsTheTextThatItsProgramWasCompiledWith) {
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

TEST_F(TooLittleRoomTest, RunsOfAnotherProgramSeeTheStatesOfTheirTurn) {
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

TEST_F(TooLittleRoomTest, TheResultOfARunThatRunsAgainIsAnArgumentOfAnotherProgram) {
  const Executable step = slice_.compile(routed(mesh_, 0));
  const Slice other = client_.allocate({.devices = 2});
  const Executable mark = other.compile(marks(mesh_));
  mark.run({{"more", step.run(given(1, crowded()))["log"]}});
  EXPECT_EQ(logged(other), 1);
}

TEST_F(TooLittleRoomTest, CompilingAgainWithALargerBoundWarnsTheUserWithTheBoundsAndTheLine) {
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
  EXPECT_THAT(lines[0], HasSubstr("bound 0.5 became 1 at too_little_room_test.cc:"));
  EXPECT_THAT(lines[1], HasSubstr("bound 1 became 2 at too_little_room_test.cc:"));
}

TEST_F(TooLittleRoomTest, TheResultOfARunThatRunsAgainIsAnArgumentOfTheNext) {
  const Executable step = slice_.compile(routed(mesh_, 1));
  const gangway::Run first = step.run(given(1, crowded()));
  const gangway::Run second =
      step.run({{"x", first["one more"]}, {"choice", crowded()}, {"n", 2.0f}});
  EXPECT_THAT(second["one more"].to_host().as<float>(), testing::Each(3.0f));
  EXPECT_EQ(second["y"].item<float>(), 2 * 24 * kDim * kHidden);
  EXPECT_EQ(logged(second), 12);
}

TEST_F(TooLittleRoomTest, AnArrayOutlivesItsExecutableWhoseRunIsRunAgain) {
  const Array log = [&] {
    return slice_.compile(routed(mesh_, 1)).run(given(1, crowded()))["log"];
  }();
  EXPECT_EQ(log.item<float>(), 1);
  EXPECT_EQ(logged(slice_), 1);
}

// Large tensors are put on the devices before the first run, and are there for the next plan too.
TEST_F(TooLittleRoomTest, TensorsThatWerePutForTheSmallPlanAreReadByTheLargeOne) {
  const Executable step = slice_.compile(routed(mesh_, 0));
  const Array x = slice_.from_host(rows(1)), more = slice_.from_host(rows(2));
  const gangway::Run first = step.run({{"x", x}, {"choice", crowded()}, {"n", 1.0f}});
  EXPECT_EQ(first["y"].item<float>(), 24 * kDim * kHidden);
  for (const Array& rows : {x, more}) {
    const gangway::Run next = step.run({{"x", rows}, {"choice", balanced()}, {"n", 2.0f}});
    EXPECT_EQ(next["y"].item<float>(), (rows.impl() == x.impl() ? 24 : 48) * kDim * kHidden);
  }
  EXPECT_EQ(logged(slice_), 122);
}

TEST_F(TooLittleRoomTest, NoProgressIsReportedAfterACompileHasReturned) {
  int told = 0;
  const Executable step =
      slice_.compile(routed(mesh_, 1), {.on_progress = [&](const CompileProgress&) { ++told; }});
  const int during_compile = told;
  EXPECT_GT(during_compile, 0);
  EXPECT_EQ(logged(step.run(given(1, crowded()))), 1);
  EXPECT_EQ(told, during_compile);
}

TEST_F(TooLittleRoomTest, SeveralThreadsRunOneExecutable) {
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

TEST(TooLittleRoomMemoryTest, RunsWhoseLargerProgramDoesNotFitFailAndLaterOnesUseTheLastProgram) {
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
    const gangway::Run second = step.run(given(2, crowded()));
    // The second run may have been enqueued once the first had failed.
    for (const gangway::Run& failed : {second, first}) {
      const Error error = error_of([&] { failed.wait(); });
      EXPECT_THAT(error.what(), HasSubstr("does not fit"));
    }
    EXPECT_EQ(error_of([&] { first.wait(); }).kind(), ErrorKind::kInvalid);
    EXPECT_EQ(logged(step.run(given(3, balanced()))), i == 0 ? 3 : 33);
  }
}

}  // namespace
}  // namespace gangway
