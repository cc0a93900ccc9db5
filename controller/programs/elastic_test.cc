#include "controller/programs/elastic.h"

#include <gtest/gtest.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

ProgramOnSlice on(const Mesh& mesh) { return {std::make_shared<const Program>(doubled(mesh)), 0}; }

SliceShape shape(uint32_t devices, std::vector<uint32_t> axes, uint32_t ranks = 1) {
  SliceShape of(devices, ranks);
  of.axes = std::move(axes);
  return of;
}

TEST(ShrinkingTest, TheFirstAxisIsHalvedAsOftenAsItCanThenTheNext) {
  const Mesh mesh{{{"data", 4}, {"model", 6}}};
  const ProgramOnSlice one = on(mesh);
  Shrinking shrinking({one}, shape(24, {4, 6}), {"data", "model"});
  EXPECT_EQ(shrinking.shrunk(one)->slices[0].mesh.devices(), 24);
  std::vector<std::vector<uint32_t>> axes;
  while (shrinking.next()) axes.push_back(shrinking.shape().axes);
  EXPECT_EQ(axes, (std::vector<std::vector<uint32_t>>{{2, 6}, {1, 6}, {1, 3}}));
  EXPECT_EQ(shrinking.shape().devices, 3u);
  EXPECT_EQ(shrinking.sizes(), (std::map<std::string, int64_t>{{"data", 1}, {"model", 3}}));
  EXPECT_EQ(shrinking.shrunk(one)->slices[0].mesh.devices(), 3);
}

TEST(ShrinkingTest, AnAxisThatSomeProgramDoesNotHaveOrThatLeavesHalfADeviceStays) {
  const ProgramOnSlice data = on(Mesh{{{"data", 4}}}), batch = on(Mesh{{{"batch", 4}}});
  EXPECT_FALSE(Shrinking({data, batch}, shape(4, {}), {"data"}).next());
  EXPECT_FALSE(Shrinking({data}, shape(4, {}), {}).next());
  Shrinking ranks({data}, shape(4, {}, 2), {"data"});
  EXPECT_TRUE(ranks.next());
  EXPECT_FALSE(ranks.next()) << "a device has two ranks";
  EXPECT_EQ(ranks.shape().devices, 2u);
}

}  // namespace
}  // namespace gangway
