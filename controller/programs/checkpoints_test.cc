#include "controller/programs/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/error_of.h"
#include "tests/support/recovery/kept_program.h"

namespace gangway::checkpoints_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

TEST(CheckpointNamesTest, NamesOfFoldersAreSafeAndNoTwoAlike) {
  EXPECT_EQ(Checkpoints::escaped("train-2_b"), "train-2_b");
  EXPECT_EQ(Checkpoints::escaped(".."), "%2E%2E");
  EXPECT_EQ(Checkpoints::escaped("a/b c"), "a%2Fb%20c");
  EXPECT_EQ(Checkpoints::escaped("a%2Fb"), "a%252Fb");
  EXPECT_EQ(Checkpoints::escaped("x~earlier"), "x%7Eearlier");
  const std::string a(256, '.'), b = std::string(255, '.') + "/";
  EXPECT_LE(Checkpoints::escaped(a).size(), 240u);
  EXPECT_NE(Checkpoints::escaped(a), Checkpoints::escaped(b));
}

class CheckpointsTest : public KeptProgramTest {
 protected:
  // Runs until the states have this version, and ends all copies.
  void run_to(uint64_t version) {
    while (this->version() < version) {
      run_to_its_end();
      end_transfers();
    }
  }
  std::vector<uint64_t> written() {
    std::vector<uint64_t> versions;
    for (const CheckpointFiles& files : store().written) versions.push_back(files.version);
    return versions;
  }
  // Names of the tensors in the newest checkpoint that was written.
  std::vector<std::string> tensors() {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : store().written.back().tensors) names.push_back(tensor.name);
    return names;
  }
  static Error no_room() { return {ErrorKind::kOverloaded, "shared memory: no memory file"}; }
};

TEST_F(CheckpointsTest, AHostWithoutMemoryForCheckpointsFailsTheCall) {
  for (FakeExecutor& executor : executors_) executor.store.refuses = no_room();
  const Error error = error_of([&] { keep(3); });
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.what(), HasSubstr("no memory file"));
  for (FakeExecutor& executor : executors_) executor.store.refuses.reset();
  keep(3);
  run_to(3);
  EXPECT_THAT(written(), ElementsAre(3));
}

TEST_F(CheckpointsTest, AfterALateAllocationTheNextVersionIsKeptAndNotTheNextMultiple) {
  keep(3);
  run_to(3);
  store().refuses = no_room();
  run_to(4);
  // The checkpoint that waits for version 6 has its memory. A new state makes it ask again.
  compile(counting({"w", "z"}));
  reactor_->run_ready();
  run_to(8);
  EXPECT_THAT(reported(), Contains(HasSubstr("a checkpoint of version 6 can't be made yet: shared "
                                             "memory: no memory file; the program goes on")));
  EXPECT_THAT(written(), ElementsAre(3));
  store().refuses.reset();
  for (int i = 0; i < 3; ++i) pass_ms(1000);
  end_transfers();
  EXPECT_THAT(written(), ElementsAre(3, 8));
  run_to(9);
  EXPECT_THAT(written(), ElementsAre(3, 8, 9));
}

TEST_F(CheckpointsTest, NoMemoryIsHeldForAVersionThatIsFar) {
  keep(100);
  EXPECT_THAT(store().segments, IsEmpty());
  for (int i = 0; i < 80; ++i) {
    pass_ms(50);
    run_to_its_end();
  }
  EXPECT_THAT(store().segments, IsEmpty());
  for (int i = 0; i < 19; ++i) {
    pass_ms(50);
    run_to_its_end();
  }
  EXPECT_THAT(store().segments, SizeIs(1));
  run_to(100);
  EXPECT_THAT(written(), ElementsAre(100));
  EXPECT_THAT(store().segments, IsEmpty());
}

// Ada has more programs than segments. Each program waits for its first version.
TEST_F(CheckpointsTest, OneOwnersProgramsLeaveMemoryForThoseOfOthers) {
  const size_t at = host();
  std::vector<FakeClient> clients(Checkpoints::kSegmentsOfOwnerMax + 5);
  std::vector<SessionId> sessions;
  const auto add = [&](const std::string& owner, FakeClient& client) {
    const SessionId id = controller_.programs().add(cat("p", sessions.size()), owner, client);
    sessions.push_back(id);
    reactor_->run([&] {
      SliceShape shape(2);
      const SliceId slice = controller_.allocate(id, shape).id;
      controller_.compile(id, counting(), {slice}, {2});
      controller_.keep_checkpoints(id, slice, {.every = 1});
    });
  };
  for (size_t other = 0; other < hosts_.size(); ++other) {
    if (other != at) controller_.host_lost(hosts_[other], Error(ErrorKind::kUnavailable, "gone"));
  }
  for (size_t i = 0; i + 1 < clients.size(); ++i) add("ada", clients[i]);
  EXPECT_THAT(store().segments, SizeIs(Checkpoints::kSegmentsOfOwnerMax));
  add("bob", clients.back());
  EXPECT_THAT(store().segments, SizeIs(Checkpoints::kSegmentsOfOwnerMax + 1));
  // A program that ends leaves its segment to one that waits.
  controller_.session_closed(sessions.front());
  reactor_->run_ready();
  EXPECT_THAT(store().segments, SizeIs(Checkpoints::kSegmentsOfOwnerMax + 1));
  for (const SessionId id : sessions) controller_.session_closed(id);
  reactor_->run_ready();
  EXPECT_THAT(store().segments, IsEmpty());
}

// Each of ada's programs asks for memory to restore from, and the executor takes long to create it.
TEST_F(CheckpointsTest, OneOwnersProgramsLeaveMemoryToRestoreFromForThoseOfOthers) {
  const size_t at = host();
  for (size_t other = 0; other < hosts_.size(); ++other) {
    if (other != at) controller_.host_lost(hosts_[other], Error(ErrorKind::kUnavailable, "gone"));
  }
  FakeCheckpoints& store = executors_[at].store;
  store.making.emplace();
  std::vector<FakeClient> clients(Checkpoints::kSegmentsOfOwnerMax + 5);
  std::vector<SessionId> sessions;
  std::vector<Fiber> fibers;
  const auto add = [&](const std::string& owner) {
    const SessionId id =
        controller_.programs().add(cat("p", sessions.size()), owner, clients[sessions.size()]);
    sessions.push_back(id);
    fibers.push_back(reactor_->spawn("keep", [this, id] {
      const SliceId slice = controller_.allocate(id, {2}).id;
      controller_.compile(id, counting(), {slice}, {2});
      error_of([&] { controller_.keep_checkpoints(id, slice, {.every = 1}); });
    }));
    reactor_->run_ready();
  };
  while (sessions.size() + 1 < clients.size()) add("ada");
  EXPECT_THAT(store.segments, SizeIs(Checkpoints::kSegmentsOfOwnerMax));
  add("bob");
  EXPECT_THAT(store.segments, SizeIs(Checkpoints::kSegmentsOfOwnerMax + 1));
  Promise<CheckpointPeer::Segment> making = std::move(*store.making);
  store.making.reset();
  store.refuses = no_room();
  making.fail(no_room());
  for (Fiber& fiber : fibers) fiber.join();
  for (const SessionId id : sessions) controller_.session_closed(id);
  reactor_->run_ready();
}

TEST_F(CheckpointsTest, AStateThatIsPlacedWhileACheckpointWaitsForItsVersionIsInIt) {
  keep(3);
  run_to(1);
  compile(counting({"w", "z"}));
  run_to(3);
  EXPECT_THAT(written(), ElementsAre(3));
  EXPECT_THAT(tensors(), ElementsAre("w", "z"));
}

TEST_F(CheckpointsTest, AStateThatIsPlacedWhileTheMemoryIsAllocatedIsInTheCheckpoint) {
  keep(3);
  store().making.emplace();
  compile(counting({"w", "z"}));
  compile(counting({"y"}));
  EXPECT_THAT(store().segments, SizeIs(1));
  const uint64_t number = *store().segments.begin();
  Promise<CheckpointPeer::Segment> making = std::move(*store().making);
  store().making.reset();
  making.set({number, {.bytes = 64}});
  reactor_->run_ready();
  EXPECT_FALSE(store().segments.contains(number));
  run_to(3);
  EXPECT_THAT(written(), ElementsAre(3));
  EXPECT_THAT(tensors(), ElementsAre("w", "y", "z"));
}

TEST_F(CheckpointsTest, AFailedCopyIsReportedAndTheCheckpointIsWrittenLater) {
  keep(3);
  while (version() < 3) run_to_its_end();
  EXPECT_EQ(end_transfers(Error(ErrorKind::kInvalid, "no state \"w\" is here")), 1u);
  EXPECT_THAT(reported(),
              Contains(HasSubstr("a checkpoint of version 3 can't be made yet: no state "
                                 "\"w\" is here")));
  EXPECT_THAT(written(), IsEmpty());
  pass_ms(1100);
  end_transfers();
  EXPECT_THAT(written(), ElementsAre(3));
}

TEST_F(CheckpointsTest, CheckpointsContinueAfterACancelledCopy) {
  keep(3);
  while (version() < 3) run_to_its_end();
  EXPECT_EQ(end_transfers(Error(ErrorKind::kCancelled, "the copy was cancelled")), 1u);
  EXPECT_THAT(written(), IsEmpty());
  pass_ms(1100);
  end_transfers();
  run_to(6);
  EXPECT_THAT(written(), ElementsAre(3, 6));
}

// State "z" came before version 3 was kept, and "y" after it.
TEST_F(CheckpointsTest, OnlyStatesThatAreYoungerThanACheckpointMayBeMissingFromIt) {
  keep(3);
  run_to(1);
  compile(counting({"z"}));
  run_to(3);
  compile(counting({"y"}));
  lose_host();
  std::vector<CheckpointFiles> read;
  for (const FakeExecutor& executor : executors_)
    read.insert(read.end(), executor.store.read.begin(), executor.store.read.end());
  ASSERT_THAT(read, SizeIs(1));
  EXPECT_EQ(read[0].version, 3u);
  std::map<std::string, bool> may_be_missing;
  for (const StoredTensor& tensor : read[0].tensors)
    may_be_missing.emplace(tensor.name, tensor.may_be_missing);
  EXPECT_THAT(may_be_missing, ElementsAre(Pair("w", false), Pair("y", true), Pair("z", false)));
}

TEST_F(CheckpointsTest, AFailedCheckpointIsFollowedByTheNextMultiple) {
  keep(3);
  store().writing.emplace();
  run_to(3);
  store().writing->fail(Error(ErrorKind::kUnavailable, "the disk is full"));
  reactor_->run_ready();
  EXPECT_THAT(reported(), Contains(HasSubstr("checkpoint of version 3 was not written: the disk is "
                                             "full")));
  store().writing.reset();
  pass_ms(1100);
  run_to(6);
  EXPECT_THAT(written(), ElementsAre(3, 6));
}

}  // namespace
}  // namespace gangway::checkpoints_test
