#include "ir/types/mesh.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(Mesh, LaysDevicesInRowMajorOrder) {
  Mesh mesh{{{"data", 2}, {"expert", 4}}};
  EXPECT_EQ(mesh.devices(), 8);
  EXPECT_EQ(mesh.coordinate(6, 0), 1);
  EXPECT_EQ(mesh.coordinate(6, 1), 2);
  EXPECT_EQ(mesh.axis("expert"), 1);
  EXPECT_EQ(mesh.axis("model"), -1);
  EXPECT_EQ(to_string(mesh), "{data: 2, expert: 4}");
}

TEST(Mesh, AMeshOfMoreDevicesThanANumberHoldsHasTheLargestNumber) {
  const int64_t many = int64_t{1} << 40;
  EXPECT_EQ((Mesh{{{"a", many}, {"b", many}, {"c", 2}}}).devices(), INT64_MAX);
}

}  // namespace
}  // namespace gangway
