#include "ir/mesh.h"

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

}  // namespace
}  // namespace gangway
