// Tests on which devices the training command trains, by its options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/train/train.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

using testing::HasSubstr;

class MeshOfARunTest : public FolderTest {
 protected:
  TrainOptions options(std::vector<MeshAxis> mesh) const {
    const std::filesystem::path text = write("text.txt", readable_text());
    TrainOptions options;
    options.cluster = "local:2x2";
    options.text = text.string();
    options.out = folder_ / "out";
    options.replace = true;  // Some tests train twice.
    options.config = tiny_model(text);
    options.mesh = std::move(mesh);
    options.steps = 1;
    options.heldout_every = 0;
    options.sample_bytes = 0;
    options.in_process = true;
    return options;
  }
};

TEST_F(MeshOfARunTest, AMeshTakesAsManyDevicesOfALocalClusterAsItHas) {
  EXPECT_EQ(train(options({{"data", 2}})).steps, 1);
  EXPECT_EQ(train(options({{"data", 2}, {"replica", 2}})).steps, 1);
}

TEST_F(MeshOfARunTest, WithoutAMeshOrANumberTheWholeLocalClusterTrains) {
  TrainOptions all = options({});
  all.config.batch = 6;
  EXPECT_THAT(error_of([&] { train(all); }).what(), HasSubstr("4 devices that it is cut over"));
}

TEST_F(MeshOfARunTest, AMeshThatIsLargerThanTheClusterAndOneOfAnotherNumberAreRefused) {
  EXPECT_THAT(error_of([&] { train(options({{"data", 8}})); }).what(),
              HasSubstr("has 8 devices, and local:2x2 has 4: expected sizes whose product"));
  TrainOptions two = options({{"data", 2}});
  two.devices = 4;
  EXPECT_THAT(error_of([&] { train(two); }).what(), HasSubstr("has 2 devices, and there are 4"));
}

}  // namespace
}  // namespace gangway::programs
