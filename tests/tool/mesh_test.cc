// Tests how a mesh is read from the command line.
#include "tools/commands/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace gangway::tool {
namespace {

TEST(ParseMesh, ReadsAxesInTheirOrder) {
  const std::vector<MeshAxis> axes = parse_mesh("data=256,model=4");
  ASSERT_EQ(axes.size(), 2u);
  EXPECT_EQ(axes[0].name, "data");
  EXPECT_EQ(axes[0].size, 256);
  EXPECT_EQ(axes[1].name, "model");
  EXPECT_EQ(axes[1].size, 4);
  EXPECT_TRUE(parse_mesh("").empty());
}

TEST(ParseMesh, TextsThatAreNoListOfAxesAreRefused) {
  for (const char* text :
       {"data=2,", ",", ",data=2", "data=2,,model=2", "data", "=2", "data=0", "data=2x",
        "data=", "data=-1", "data=9223372036854775807,model=4", "data=1048576,model=2"})
    EXPECT_THAT(error_text_of([&] { parse_mesh(text); }), testing::HasSubstr("--mesh")) << text;
}

}  // namespace
}  // namespace gangway::tool
