// A host that was declared lost had only stopped: it goes on, ends its work, and copies states into
// memory of clients and checkpoints that it was given. No other transfer may have that memory then.
// The cluster's LandingLog fails a test in which one has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "gangway.h"
#include "runtime/os/landing_log.h"
#include "runtime/os/temp_dir.h"
#include "sim/sim_cluster.h"
#include "tests/sim/meddling.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"

namespace gangway::late_writes_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kRows = 64, kColumns = 64;

// Each run takes a second, and adds 7 to all of "w".
Program adding_seven(int64_t devices) {
  ProgramBuilder b("adding", Mesh{{{"data", devices}}});
  const Value w = b.state("w", zeros(f32({kRows, kColumns})), {{"data", shard(0)}});
  b.update(w, timed(w, 1'000'000) + 7.0);
  b.output("sum", sum(w));
  return b.build();
}

Program averaging() {
  ProgramBuilder b("averaging", Mesh{{{"data", 1}}});
  b.output("mean", mean(b.input("x", f32({kRows, kColumns}))));
  return b.build();
}

HostTensor ones() {
  return HostTensor::of<float>({kRows, kColumns},
                               std::vector<float>(static_cast<size_t>(kRows * kColumns), 1.0f));
}

// Loses a host while it is asked for a state, puts an array of ones, and lets the host go on.
// Returns the array's mean.
float mean_of_ones_behind_a_loss(Reactor& reactor, SimCluster& cluster, const Client& client) {
  const Slice lost = client.allocate({.devices = 1});
  const Executable add = lost.compile(adding_seven(1));
  const Slice other = client.allocate({.devices = 1});
  const Executable average = other.compile(averaging());
  const gangway::Run run = add.run();
  Error error(ErrorKind::kBug, "not thrown");
  Fiber read = reactor.spawn("read", [&] { error = error_of([&] { lost.read_state("w"); }); });
  pass(reactor, 100 * kMillisecond);
  cluster.stop(0);
  read.join();
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);

  // The array's bytes are on their way to the other host when the first one goes on.
  cluster.stop(1);
  const gangway::Run averaged = average.run({{"x", other.from_host(ones())}});
  pass(reactor, kMillisecond);
  cluster.resume(0);
  pass(reactor, 2 * kSecond);
  cluster.resume(1);
  return averaged["mean"].item<float>();
}

TEST(LateWritesTest, AnArrayThatIsPutAfterAHostWasLostIsNotOverwrittenWhenThatHostGoesOn) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {.hosts = 2, .devices_per_host = 1},
              [&](SimCluster& cluster, const Client& client) {
                EXPECT_EQ(mean_of_ones_behind_a_loss(*reactor, cluster, client), 1.0f);
              });
}

// The client believes that the host has ended its copy, and uses the memory again.
TEST(LateWritesTest, TheLogKnowsMemoryThatIsUsedAgainWhileAHostMayWriteToIt) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  const auto log = std::make_shared<LandingLog>();
  FrameMeddler meddler = tells_that_copies_are_settled();
  with_client(*reactor, {.hosts = 2, .devices_per_host = 1, .new_landings = [log] { return log; }},
              [&](SimCluster& cluster, const Client& client) {
                meddler.stand_in(cluster.network);
                mean_of_ones_behind_a_loss(*reactor, cluster, client);
              });
  EXPECT_THAT(log->broken(), HasSubstr("handed to transfer"));
}

// A program with checkpoints on hosts 0 and 1; host 2 is a spare.
class Scene {
 public:
  Scene(Reactor& reactor, uint64_t every)
      : reactor_(reactor),
        cluster(reactor,
                {.hosts = 3, .devices_per_host = 2, .checkpoint_folder = root_.path().string()}) {
    const auto tell = [this](const std::string& line) { told += line + "\n"; };
    client.emplace(cluster.connect("client", {.name = "trainer", .on_warning = tell}));
    slice.emplace(client->allocate({.devices = 4}));
    step.emplace(slice->compile(adding_seven(4)));
    slice->keep_checkpoints({.every = every, .keep = 2});
  }
  ~Scene() {
    step.reset();
    slice.reset();
    client->close();
  }
  Scene(const Scene&) = delete;

  // Stops the host while requests are queued behind its run; the host is lost.
  void stop_a_host_and_lose_it() {
    pass(reactor_, 100 * kMillisecond);
    cluster.stop(1);
    while (told.find("the program goes on on host-0, host-2") == std::string::npos)
      pass(reactor_, 10 * kMillisecond);
  }
  void let_it_go_on() {
    cluster.resume(1);
    pass(reactor_, 5 * kSecond);
  }

 private:
  Reactor& reactor_;
  TempDir root_;

 public:
  SimCluster cluster;
  std::string told;
  std::optional<Client> client;
  std::optional<Slice> slice;
  std::optional<Executable> step;
};

TEST(LateWritesTest, AStateThatIsReadWhileItsHostIsLostIsReadIntoOtherMemoryOnceItIsBack) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    Scene scene(*reactor, 100);
    const gangway::Run run = scene.step->run();
    HostTensor w;
    Fiber read = reactor->spawn("read", [&] { w = scene.slice->read_state("w"); });
    scene.stop_a_host_and_lose_it();
    scene.let_it_go_on();
    read.join();
    EXPECT_THAT(w.as<float>(), Each(7.0f));
  });
}

TEST(LateWritesTest, ASnapshotThatIsCopiedWhileItsHostIsLostIsOfOneVersion) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    Scene scene(*reactor, 100);
    const Client reader = scene.cluster.connect("reader");
    const SharedStates states = reader.open_states("trainer");
    const Snapshot first = states.at(1), latest = states.latest(), second = states.at(2);
    const gangway::Run run = scene.step->run();
    const gangway::Run next = scene.step->run();
    scene.stop_a_host_and_lose_it();
    first.wait();
    scene.let_it_go_on();
    EXPECT_EQ(first.version(), 1u);
    EXPECT_THAT(first.read("w").as<float>(), Each(7.0f));
    EXPECT_EQ(second.version(), 2u);
    EXPECT_THAT(second.read("w").as<float>(), Each(14.0f));
    EXPECT_THAT(latest.read("w").as<float>(), Each(7.0f * static_cast<float>(latest.version())));
    reader.close();
  });
}

// The reader lets go of the snapshot while it has no connection: nothing else may have its memory,
// although the controller would be asked for the snapshot once more.
TEST(LateWritesTest, ASnapshotThatIsLetGoWhileItsReaderAndItsHostAreGoneLeavesItsMemoryAlone) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    Scene scene(*reactor, 100);
    const Client reader = scene.cluster.connect("reader");
    const SharedStates states = reader.open_states("trainer");
    std::optional<Snapshot> first = states.at(1);
    const gangway::Run run = scene.step->run();
    pass(*reactor, 100 * kMillisecond);
    scene.cluster.network.partition("reader", SimCluster::kController);
    scene.cluster.network.break_connections("reader");
    scene.stop_a_host_and_lose_it();
    first.reset();
    scene.cluster.network.heal("reader", SimCluster::kController);
    pass(*reactor, kSecond);
    const Snapshot latest = states.latest();
    scene.let_it_go_on();
    EXPECT_THAT(latest.read("w").as<float>(), Each(7.0f * static_cast<float>(latest.version())));
    reader.close();
  });
}

TEST(LateWritesTest, ACheckpointThatIsCopiedWhileItsHostIsLostIsWrittenFromOtherMemory) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    Scene scene(*reactor, 1);
    const gangway::Run run = scene.step->run();
    scene.stop_a_host_and_lose_it();
    scene.let_it_go_on();
    for (int i = 0; i < 3; ++i) scene.step->run().wait();
    pass(*reactor, 2 * kSecond);
    EXPECT_THAT(scene.slice->read_state("w").as<float>(), Each(28.0f));
    EXPECT_THAT(scene.told, Not(HasSubstr("was not written")));
  });
}

// Simulated hosts number what they offer from 1 on.
TEST(LateWritesTest, TheLogKnowsWhichMemoryHostsHaveOfferedForWhichPlan) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  const auto log = std::make_shared<LandingLog>();
  with_client(*reactor, {.hosts = 2, .devices_per_host = 1, .new_landings = [log] { return log; }},
              [&](SimCluster&, const Client& client) {
                const Slice slice = client.allocate({.devices = 2});
                const Executable add = slice.compile(adding_seven(2));
                add.run().wait();
              });
  EXPECT_THAT(log->broken(), IsEmpty());
  const uint64_t number = 1;
  std::vector<std::byte> offer(sizeof number);
  std::memcpy(offer.data(), &number, sizeof number);
  log->offers("a test", offer);
  EXPECT_THAT(log->broken(), HasSubstr("was offered for plan "));
}

}  // namespace
}  // namespace gangway::late_writes_test
