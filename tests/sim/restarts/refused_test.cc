// Programs that hosts refuse behind a restart of the controller, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/sim/restarts/resumed.h"
#include "tests/support/places.h"
#include "tests/support/seed.h"

namespace gangway::restarts_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A program whose kernel is of a user's library, and which reads a text. One host has enough
// devices for it.
Program with_kernel(const std::filesystem::path& library, const std::filesystem::path& text) {
  ProgramBuilder b("with_kernel", Mesh{{{"data", 2}}});
  const Value w = b.state("w", zeros(f32({2, 2})));
  const Value tokens = b.source(
      "tokens", {"text", {{"path", text.string()}, {"seed", int64_t{3}}, {"heldout", false}}},
      i32({8, 5}), {{"data", shard(0)}});
  const Value seen = mean(convert(tokens, DType::kF32)) * 0.01;
  const Value next =
      custom_call(user_kernel(library, "add_ten_times"), {w * 0.1, w * 0.01}, f32({2, 2})) + seen;
  b.update(w, timed(next, 500));
  b.output("loss", mean(next));
  return b.build();
}

class RefusedTest : public ResumedTest {
 protected:
  void SetUp() override {
    ResumedTest::SetUp();
    give_library();
  }
  void give_library() const { std::filesystem::copy(tests::user_kernel(), library()); }
  std::filesystem::path library() const { return folder_ / "kernel.so"; }
  // Starts the program on the first of these slices, ends the controller while it runs, and removes
  // the library.
  void begin_and_lose_library(Restarts& cluster,
                              const std::vector<SliceOptions>& asked = {{.devices = 2}}) const {
    start(cluster);
    {
      const Client client = cluster.connect("trainer");
      std::vector<Slice> slices;
      for (const SliceOptions& options : asked) slices.push_back(client.allocate(options));
      const Executable step = slices[0].compile(with_kernel(library(), text_));
      slices[0].keep_checkpoints({.every = 10, .keep = 2});
      step.repeat(1'000'000, {});
      client.detach();
    }
    cluster.pass(30ms);
    cluster.kill_controller();
    std::filesystem::remove(library());
  }
  // Waits until a host has refused the program for the lack of its library.
  bool is_refused_by_a_host(Restarts& cluster) const {
    const auto is_refused = [&] {
      return log().find("custom_call: library ") != std::string::npos;
    };
    for (int i = 0; i < 3000 && !is_refused(); ++i) cluster.pass(10ms);
    return is_refused();
  }
  // The host that a program of two devices gets where no host has refused it.
  static std::string first_host(Restarts& cluster) {
    std::string host;
    const Client client = cluster.connect("other");
    {
      const Slice slice = client.allocate({.devices = 2});
      for (const ProgramCounts& program : cluster.controller().program_counts()) {
        if (program.name == "other" && program.hosts.size() == 1) host = program.hosts[0];
      }
    }
    client.close();
    return host;
  }
};

TEST_F(RefusedTest, AProgramWhoseLibraryNoHostHasAnyMoreEndsAndSaysSo) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    begin_and_lose_library(cluster);
    start(cluster);
    EXPECT_FALSE(cluster.controller().program_counts().empty())
        << "hosts that have it may come back";
    cluster.pass(120s);
    EXPECT_TRUE(cluster.controller().program_counts().empty());
    EXPECT_EQ(cluster.controller().counts().total(), 0u);
  });
  EXPECT_THAT(log(), HasSubstr("it could not go on behind a restart of its controller: "
                               "custom_call: library "));
  EXPECT_THAT(log(), HasSubstr("no other host can take it\"")) << "both have refused it";
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "programs"));
}

// If the program's first slice lies on the host that has not refused it, its second slice has no
// place.
TEST_F(RefusedTest, AProgramThatHoldsAllOtherHostsItselfEndsAndSaysSo) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    const SliceOptions alone{.devices = 2, .exclusive = true};
    begin_and_lose_library(cluster, {alone, alone});
    start(cluster);
    cluster.pass(120s);
    EXPECT_TRUE(cluster.controller().program_counts().empty());
    EXPECT_EQ(cluster.controller().counts().total(), 0u);
  });
  EXPECT_THAT(log(), HasSubstr("no other host can take it\""));
}

// The operator lowers the quota while the program waits for a host that has its library.
TEST_F(RefusedTest, AProgramThatItsOwnersQuotaStopsSaysSoAndNamesNoHost) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    begin_and_lose_library(cluster);
    cluster.start_controller(state(), options());
    ASSERT_TRUE(is_refused_by_a_host(cluster));
    cluster.controller().tables().quotas.set({.others = {.devices = 1}});
    cluster.pass(120s);
    EXPECT_TRUE(cluster.controller().program_counts().empty());
  });
  EXPECT_THAT(log(), HasSubstr("it could not go on behind a restart of its controller: allocate: "
                               "the quota of owner "));
  EXPECT_THAT(log(), Not(HasSubstr("no other host can take it\"")));
}

// All hosts see one folder, so both find the library there again. The host that refused the program
// is passed over none the less.
TEST_F(RefusedTest, AProgramGoesOnWhereAnotherHostHasItsLibrary) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    begin_and_lose_library(cluster);
    cluster.start_controller(state(), options());
    ASSERT_TRUE(is_refused_by_a_host(cluster));
    const std::string first = first_host(cluster);
    ASSERT_NE(first, "");
    give_library();
    const auto goes_on = [&] {
      const std::vector<ProgramCounts> programs = cluster.controller().program_counts();
      return !programs.empty() && programs[0].runs_done > 0;
    };
    for (int i = 0; i < 200 && !goes_on(); ++i) cluster.pass(100ms);
    ASSERT_EQ(cluster.controller().program_counts().size(), 1u);
    EXPECT_GT(cluster.controller().program_counts()[0].runs_done, 0u);
    EXPECT_THAT(cluster.controller().program_counts()[0].hosts, ElementsAre(Not(first)));
    cluster.attach("visitor", "trainer").close();
  });
  EXPECT_THAT(log(), Not(HasSubstr("it could not go on")));
}

}  // namespace
}  // namespace gangway::restarts_test
