// An executor is killed: programs that used it fail, others go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "gangway.h"
#include "tests/processes/process_tree.h"

namespace gangway {
namespace {

using testing::HasSubstr;

// Keeps every device busy, and then adds over all of them, where each device waits for the others.
Program busy_sum(const Mesh& mesh, int64_t microseconds) {
  ProgramBuilder b("busy_sum", mesh);
  Value x = b.input("x", f32({12}), {{"data", shard(0)}});
  b.output("sum", sum(timed(x, microseconds), {0}));
  return b.build();
}

const HostTensor kOnes = HostTensor::of<float>({12}, std::vector<float>(12, 1.0f));

// Keeps every device busy; then every device gathers the rows of all others.
Program busy_gather(const Mesh& mesh, int64_t microseconds) {
  ProgramBuilder b("busy_gather", mesh);
  Value x = b.input("x", f32({12}), {{"data", shard(0)}});
  b.output("sum", sum(slice(cumsum(timed(x, microseconds), 0), 0, 11, 12), {0}));
  return b.build();
}

// Parameter: the program in which the devices wait for one another.
class LostHostMeetingTest
    : public testing::TestWithParam<Program (*)(const Mesh& mesh, int64_t microseconds)> {};

TEST_P(LostHostMeetingTest, RunsUnderWayFailWithinTwoSecondsAndAllSurvivorsRunOtherPrograms) {
  const Client client = connect("local:4x1", {.memory_bytes = 64 << 20});
  {
    const Slice all = client.allocate({.devices = 4});
    const Executable step = all.compile(GetParam()(all.mesh({{"data", 4}}), 10));
    pid_t killed = 0;
    for (pid_t pid : children_of(getpid())) {
      if (is_executor(pid, "host-1")) killed = pid;
    }
    ASSERT_NE(killed, 0);
    kill(killed, SIGSTOP);  // The others wait for it in their collective.
    std::vector<gangway::Run> runs;
    // The time limit cancels a run that takes longer.
    for (int i = 0; i < 4; ++i) runs.push_back(step.run({{"x", kOnes}}, {.time_limit_ms = 2000}));
    ASSERT_FALSE(runs[0].done());
    kill(killed, SIGKILL);
    for (const gangway::Run& run : runs) {
      try {
        run.wait();
        FAIL() << "a run did not fail";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("host-1"));
      }
    }
  }
  const Slice left = client.allocate({.devices = 3});
  const Executable step = left.compile(GetParam()(left.mesh({{"data", 3}}), 10));
  EXPECT_EQ(step.run({{"x", kOnes}}, {.time_limit_ms = 20'000})["sum"].item<float>(), 12.0f);
}

INSTANTIATE_TEST_SUITE_P(In, LostHostMeetingTest, testing::Values(&busy_sum, &busy_gather),
                         [](const auto& i) {
                           return i.index == 0 ? "AnAllReduce" : "AnAllGather";
                         });

}  // namespace
}  // namespace gangway
