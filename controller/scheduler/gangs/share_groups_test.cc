#include "controller/scheduler/gangs/share_groups.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<DeviceRef> devices(uint32_t first, uint32_t count) {
  std::vector<DeviceRef> all;
  for (uint32_t d = first; d < first + count; ++d) all.push_back({HostId(d / 4), d % 4});
  return all;
}

TEST(ShareGroups, AllDevicesOfASliceThatNobodySharesAreOneGroup) {
  ShareGroups groups;
  groups.add(SliceId(1), SessionId(1), devices(0, 512));
  EXPECT_EQ(groups.size(), 1u);
  EXPECT_FALSE(groups.is_contended(groups.of(SliceId(1))[0]));
  EXPECT_EQ(groups.devices().at(SessionId(1)), 512u);
}

TEST(ShareGroups, ASliceCutsTheGroupsThatItCoversInPart) {
  ShareGroups groups;
  groups.add(SliceId(1), SessionId(1), devices(0, 8));
  const GroupId before = groups.of(SliceId(1))[0];
  const GroupChanges changes = groups.add(SliceId(2), SessionId(2), devices(4, 8));
  EXPECT_EQ(groups.size(), 3u);
  ASSERT_EQ(groups.of(SliceId(1)).size(), 2u);
  const GroupId shared = groups.of(SliceId(1))[1];
  EXPECT_THAT(groups.of(SliceId(2)), ElementsAre(shared, ::testing::_));
  EXPECT_THAT(changes.split, ElementsAre(Pair(before, shared)));
  EXPECT_THAT(changes.gone, IsEmpty());
  EXPECT_FALSE(groups.is_contended(before));
  EXPECT_TRUE(groups.is_contended(shared));
  EXPECT_EQ(groups.devices().at(SessionId(2)), 8u);
}

TEST(ShareGroups, GroupsBecomeOneAgainWhenTheSliceIsGone) {
  ShareGroups groups;
  groups.add(SliceId(1), SessionId(1), devices(0, 8));
  groups.add(SliceId(2), SessionId(2), devices(4, 8));
  const GroupId shared = groups.of(SliceId(1))[1];
  const GroupChanges changes = groups.remove(SliceId(2));
  EXPECT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups.of(SliceId(1)).size(), 1u);
  EXPECT_FALSE(groups.is_contended(groups.of(SliceId(1))[0]));
  EXPECT_THAT(changes.gone, ::testing::Contains(shared));
}

TEST(ShareGroups, TwoSlicesOfOneProgramDoNotCompete) {
  ShareGroups groups;
  groups.add(SliceId(1), SessionId(1), devices(0, 4));
  groups.add(SliceId(2), SessionId(1), devices(0, 4));
  ASSERT_EQ(groups.of(SliceId(1)).size(), 1u);
  EXPECT_FALSE(groups.is_contended(groups.of(SliceId(1))[0]));
}

TEST(ShareGroups, ASliceStaysUntilItsLastUserIsGone) {
  ShareGroups groups;
  groups.add(SliceId(1), SessionId(1), devices(0, 4));
  groups.add(SliceId(1), SessionId(1), devices(0, 4));
  groups.remove(SliceId(1));
  EXPECT_EQ(groups.size(), 1u);
  groups.remove(SliceId(1));
  EXPECT_EQ(groups.size(), 0u);
}

// Compares with a table that has, for each device, the slices that lie on it.
TEST(ShareGroups, DevicesOfAGroupHaveTheSameSlicesWhateverComesAndGoes) {
  std::mt19937_64 random(tests::test_seed());
  ShareGroups groups;
  std::map<SliceId, std::vector<DeviceRef>> slices;
  for (int step = 0; step < 300; ++step) {
    if (slices.size() < 6 && random() % 2 == 0) {
      const SliceId id(static_cast<uint64_t>(step) + 1);
      const auto first = static_cast<uint32_t>(random() % 12);
      slices[id] = devices(first, 1 + static_cast<uint32_t>(random() % (16 - first)));
      groups.add(id, SessionId(id.value % 3), slices[id]);
    } else if (!slices.empty()) {
      const auto gone = std::next(slices.begin(), static_cast<int64_t>(random() % slices.size()));
      groups.remove(gone->first);
      slices.erase(gone);
    }
    std::map<DeviceRef, std::set<SliceId>> by_device;
    for (const auto& [id, at] : slices) {
      for (DeviceRef device : at) by_device[device].insert(id);
    }
    std::set<std::set<SliceId>> different;
    for (const auto& [device, lie_there] : by_device) different.insert(lie_there);
    ASSERT_EQ(groups.size(), different.size()) << "step " << step;
    for (const auto& [id, at] : slices) {
      const auto covers = [&](const auto& key) { return key.contains(id); };
      ASSERT_EQ(static_cast<int64_t>(groups.of(id).size()),
                std::ranges::count_if(different, covers));
    }
  }
}

}  // namespace
}  // namespace gangway
