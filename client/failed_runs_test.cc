// A user who enqueues runs and waits for none is told of the one that failed.
#include "client/failed_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/client.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/support/error_of.h"

namespace gangway::failed_runs_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Adds sqrt(x) to a state, where the sum is finite.
Program adding(const std::string& name, const std::string& state) {
  ProgramBuilder b(name, Mesh{{{"data", 2}}});
  const Value w = b.state(state, zeros(f32()));
  const Value next = w + sqrt(b.input("x", f32()));
  b.update(w, next);
  b.output("sum", next);
  b.require_finite("sum");
  return b.build();
}

Program doubling(const std::string& state) {
  ProgramBuilder b("doubling", Mesh{{{"data", 2}}});
  b.output("twice", b.state(state, zeros(f32())) * 2.0);
  return b.build();
}

class FailedRunsTest : public ::testing::Test {
 protected:
  FailedRunsTest()
      : client_(connect("local:1x2", {.in_process = true, .memory_bytes = 16 << 20})),
        slice_(client_.allocate({.devices = 2})),
        step_(slice_.compile(adding("step", "w"))) {}

  // Enqueues a hundred runs, of which the eleventh is not finite; nobody waits for them.
  void run_a_hundred() {
    for (int i = 0; i < 100; ++i) {
      const gangway::Run run = step_.run({{"x", i == 10 ? -1.0f : 1.0f}});
      if (i < 10) continue;
      last_ = run;
    }
  }
  float w() { return slice_.read_state("w").as<float>()[0]; }
  // Returns once all runs have ended, without asking for their errors.
  void wait_for_the_last() {
    while (!last_->done()) client_.status();
  }

  Client client_;
  Slice slice_;
  Executable step_;
  std::optional<gangway::Run> last_;
};

// The runs behind the failed one compute nothing, in whatever order their ends are reported. A call
// of run() throws the error as well, if it comes late enough.
TEST_F(FailedRunsTest, AReadBehindAHundredRunsReportsTheFailureOfTheEleventhOnce) {
  const Error error = error_of([&] {
    run_a_hundred();
    w();
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("run of \"step\": one that nobody waited for has failed, and those "
                              "enqueued behind it computed nothing: "),
                    HasSubstr("sqrt"), HasSubstr("failed_runs_test.cc")));
  EXPECT_EQ(w(), 10.0f) << "it is told once";
  EXPECT_EQ(step_.run({{"x", 1.0f}})["sum"].item<float>(), 11.0f);
}

TEST_F(FailedRunsTest, TheNextRunOfAnExecutableWithTheStateReportsTheFailure) {
  const Executable twice = slice_.compile(doubling("w")), other = slice_.compile(adding("o", "o"));
  for (const bool is_same : {true, false}) {
    last_ = step_.run({{"x", -1.0f}});
    wait_for_the_last();
    EXPECT_EQ(other.run({{"x", 1.0f}})["sum"].item<float>(), is_same ? 1.0f : 2.0f);
    EXPECT_EQ(slice_.read_state("o").as<float>()[0], is_same ? 1.0f : 2.0f);
    EXPECT_THAT(
        error_text_of([&] { is_same ? step_.run({{"x", 1.0f}}).wait() : twice.run().wait(); }),
        HasSubstr("one that nobody waited for has failed"));
    EXPECT_EQ(twice.run()["twice"].item<float>(), 0.0f);
  }
  EXPECT_EQ(step_.run({{"x", 1.0f}})["sum"].item<float>(), 1.0f);
}

TEST_F(FailedRunsTest, AWriteOfAStateAndARepetitionReportAnEarlierFailureToo) {
  for (const bool writes : {true, false}) {
    last_ = step_.run({{"x", -1.0f}});
    wait_for_the_last();
    EXPECT_THAT(error_text_of([&] {
                  writes ? slice_.write_state("w", 5.0f)
                         : static_cast<void>(step_.repeat(2, {{"x", HostTensor(1.0f)}}));
                }),
                HasSubstr("one that nobody waited for has failed"));
  }
  step_.repeat(2, {{"x", HostTensor(1.0f)}}).wait();
  EXPECT_EQ(w(), 2.0f);
}

TEST_F(FailedRunsTest, AFailureThatAWaitReportedIsNotReportedAgain) {
  const gangway::Run bad = step_.run({{"x", -1.0f}});
  EXPECT_THAT(error_text_of([&] { bad.wait(); }), HasSubstr("not finite"));
  EXPECT_EQ(w(), 0.0f);
  EXPECT_EQ(step_.run({{"x", 1.0f}})["sum"].item<float>(), 1.0f);
}

TEST_F(FailedRunsTest, AnExecutableThatHasGoneTakesNothingBack) {
  {
    const Executable gone = slice_.compile(adding("gone", "w"));
    gone.run({{"x", -1.0f}});
  }
  EXPECT_THAT(error_text_of([&] { w(); }), HasSubstr("run of \"gone\": one that nobody waited"));
  EXPECT_EQ(w(), 0.0f);
}

class FailedChainTest : public ::testing::Test {
 protected:
  FailedChainTest() {
    chain_.updates = std::make_shared<const internal::UpdatedStates>(
        internal::UpdatedStates{.program = "step", .names = {"w"}, .untold_chains = untold_});
  }
  const std::shared_ptr<std::atomic<int64_t>> untold_ = std::make_shared<std::atomic<int64_t>>(0);
  internal::Chain chain_;
};

TEST_F(FailedChainTest, AFailureThatComesAfterThatOfALaterRunIsStillReported) {
  note_failed(chain_, RunId(2), Error(ErrorKind::kCancelled, "not done within its limit"));
  EXPECT_EQ(*untold_, 1);
  note_told(chain_);
  EXPECT_EQ(*untold_, 0);
  note_failed(chain_, RunId(1), Error(ErrorKind::kInvalid, "not finite"));
  EXPECT_FALSE(chain_.told);
  EXPECT_EQ(chain_.failed->message(), "not finite");
  EXPECT_EQ(*untold_, 1);
  note_failed(chain_, RunId(3), Error(ErrorKind::kCancelled, "cancelled"));
  EXPECT_EQ(chain_.failed->message(), "not finite");
  EXPECT_EQ(*untold_, 1) << "a chain counts once";
  note_told(chain_);
  EXPECT_EQ(*untold_, 0) << "runs are looked at no longer";
}

TEST_F(FailedChainTest, AFailureThatALaterRunReportedIsNotReportedAgain) {
  note_failed(chain_, RunId(2),
              Error(ErrorKind::kCancelled, "since the run before it did not commit: not finite"));
  note_told(chain_);
  note_failed(chain_, RunId(1), Error(ErrorKind::kInvalid, "not finite"));
  EXPECT_TRUE(chain_.told);
  EXPECT_EQ(*untold_, 0);
}

}  // namespace
}  // namespace gangway::failed_runs_test
