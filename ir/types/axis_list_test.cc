#include "ir/types/axis_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/base/error.h"
#include "tests/support/seed.h"

namespace gangway::axis_list_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Mesh kMesh{{{"data", 2}, {"expert", 3}, {"model", 2}}};

TEST(AxisList, ListsOfAnyFileAreRefusedUnlessTheyNameDifferentAxes) {
  EXPECT_EQ(axes_mistake("data"), std::nullopt);
  EXPECT_EQ(axes_mistake("model,data"), std::nullopt);
  EXPECT_THAT(axes_mistake("").value(), HasSubstr("is empty: expected names of mesh axes"));
  for (const char* list : {",", "data,", ",data", "data,,model"})
    EXPECT_THAT(axes_mistake(list).value(), HasSubstr("has an empty name")) << list;
  EXPECT_THAT(axes_mistake("a,b,a").value(), HasSubstr("names \"a\" twice"));
}

TEST(AxisList, AnAxisThatTheMeshLacksIsNamed) {
  EXPECT_THAT(axes_of(kMesh, "model,data"), ElementsAre(2, 0));
  try {
    axes_of(kMesh, "data,stage");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(), HasSubstr("\"stage\" is no axis of the mesh"));
  }
}

TEST(AxisList, TheOrderOfTheListNumbersTheMembers) {
  // Device 7 lies at data 1, expert 0, model 1.
  EXPECT_EQ(member_along(kMesh, axes_of(kMesh, "data,model"), 7), 3);
  EXPECT_EQ(member_along(kMesh, axes_of(kMesh, "model,expert"), 7), 3);
  EXPECT_EQ(member_along(kMesh, axes_of(kMesh, "expert"), 7), 0);
  EXPECT_EQ(members_along(kMesh, axes_of(kMesh, "model,expert")), 6);
}

TEST(AxisList, GroupsHoldEachDeviceOnceByMember) {
  EXPECT_THAT(
      members_of_groups(kMesh, axes_of(kMesh, "data,model")),
      ElementsAre(ElementsAre(0, 1, 6, 7), ElementsAre(2, 3, 8, 9), ElementsAre(4, 5, 10, 11)));
  EXPECT_THAT(
      members_of_groups(kMesh, axes_of(kMesh, "model,data")),
      ElementsAre(ElementsAre(0, 6, 1, 7), ElementsAre(2, 8, 3, 9), ElementsAre(4, 10, 5, 11)));
}

TEST(AxisList, TheGroupOfADeviceIsFoundByArithmetic) {
  std::mt19937_64 random(tests::test_seed());
  for (int round = 0; round < 200; ++round) {
    Mesh mesh;
    for (const char* name : {"a", "b", "c", "d"})
      mesh.axes.push_back({name, 1 + static_cast<int64_t>(random() % 4)});
    std::vector<int> axes{0, 1, 2, 3};
    std::ranges::shuffle(axes, random);
    axes.resize(1 + random() % axes.size());
    const auto groups = members_of_groups(mesh, axes);
    for (size_t number = 0; number < groups.size(); ++number) {
      for (const int64_t device : groups[number]) {
        EXPECT_EQ(group_along(mesh, axes, device), static_cast<int64_t>(number))
            << to_string(mesh) << " device " << device;
        EXPECT_EQ(members_with(mesh, axes, device), groups[number]) << to_string(mesh);
      }
    }
  }
}

}  // namespace
}  // namespace gangway::axis_list_test
