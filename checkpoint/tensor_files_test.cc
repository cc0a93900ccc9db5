#include "checkpoint/tensor_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_writer.h"
#include "runtime/base/error.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using testing::HasSubstr;

const std::vector<TensorSpec> kTensors = {{"small", FileDType::kU8, {3}},
                                          {"large", FileDType::kF32, {4, 4}},
                                          {"middle", FileDType::kI64, {5}}};

class TensorFilesTest : public FolderTest {
 protected:
  void write_checkpoint(int files) const {
    std::vector<TensorFilePlan> plan = plan_tensor_files(kTensors, files);
    for (const TensorFilePlan& file : plan) {
      SafetensorsWriter out(folder_ / file.name, file.tensors, {{"format", "pt"}});
      for (const TensorSpec& tensor : file.tensors) {
        std::string bytes(*byte_size(tensor), tensor.name[0]);
        out.append(tensor.name, std::as_bytes(std::span(bytes)));
      }
      out.finish();
    }
    write_tensor_index(folder_, plan);
  }

  std::string error_with_index(const std::string& index) const {
    write(kIndexFile, index);
    try {
      TensorFiles::open(folder_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.message();
    }
    return "no error";
  }
};

TEST_F(TensorFilesTest, ShardedTensorsReadBackByName) {
  for (int files : {1, 2, 5}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    write_checkpoint(files);
    TensorFiles read = TensorFiles::open(folder_);
    ASSERT_EQ(read.tensors().size(), 3);
    for (const TensorSpec& tensor : kTensors) {
      EXPECT_EQ(*read.at(tensor.name).spec, tensor);
      EXPECT_EQ(read.at(tensor.name).read_all(),
                std::vector(*byte_size(tensor), static_cast<std::byte>(tensor.name[0])));
    }
    EXPECT_EQ(read.metadata().at("format"), "pt");
    EXPECT_THROW(read.at("absent"), Error);
  }
}

TEST_F(TensorFilesTest, TheIndexHasTheNamesThatOtherToolsExpect) {
  write_checkpoint(2);
  EXPECT_EQ(read(folder_ / kIndexFile),
            "{\n  \"metadata\": {\n    \"total_size\": 107\n  },\n  \"weight_map\": {\n"
            "    \"large\": \"model-00001-of-00002.safetensors\",\n"
            "    \"middle\": \"model-00002-of-00002.safetensors\",\n"
            "    \"small\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
}

TEST_F(TensorFilesTest, AFileIsOpenedByItselfOrByItsFolder) {
  SafetensorsWriter out(folder_ / kModelFile, {{"a", FileDType::kU8, {}}});
  out.append("a", std::as_bytes(std::span("x", 1)));
  out.finish();
  EXPECT_EQ(TensorFiles::open(folder_).tensors().size(), 1);
  EXPECT_EQ(TensorFiles::open(folder_ / kModelFile).tensors().size(), 1);
}

TEST_F(TensorFilesTest, AFolderWithoutCheckpointIsRefused) {
  EXPECT_THROW(TensorFiles::open(folder_), Error);
  EXPECT_THROW(TensorFiles::open(folder_ / "absent"), Error);
}

TEST_F(TensorFilesTest, AnIndexThatLiesIsRefused) {
  write_checkpoint(1);
  std::string file = "\"model-00001-of-00001.safetensors\"";
  EXPECT_THAT(error_with_index("{\"weight_map\":{\"none\":" + file + "}}"),
              HasSubstr("tensor none is not in model-00001-of-00001.safetensors"));
  EXPECT_THAT(error_with_index("{\"weight_map\":{\"a\":\"../x.safetensors\"}}"),
              HasSubstr("of the same folder"));
  EXPECT_THAT(error_with_index("{\"weight_map\":{\"a\":\"absent.safetensors\"}}"),
              HasSubstr("cannot open"));
  EXPECT_THAT(error_with_index("{\"weight_map\":[]}"), HasSubstr("no object \"weight_map\""));
  EXPECT_THAT(
      error_with_index("{\"metadata\":{\"total_size\":4},\"weight_map\":{\"small\":" + file + "}}"),
      HasSubstr("total_size: expected 3 bytes, got 4"));
  EXPECT_THAT(error_with_index("[1]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_with_index("{\"weight_map\""), HasSubstr("bad JSON"));
}

TEST(TensorFilePlan, DealsWholeTensorsBalancedByBytes) {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 40; ++i) tensors.push_back({cat("t", i), FileDType::kU8, {100 + 7 * i}});
  std::vector<TensorFilePlan> plan = plan_tensor_files(tensors, 4);
  EXPECT_EQ(plan[3].name, "model-00004-of-00004.safetensors");
  size_t count = 0;
  for (const TensorFilePlan& file : plan) {
    uint64_t bytes = 0;
    for (const TensorSpec& tensor : file.tensors) bytes += *byte_size(tensor);
    EXPECT_NEAR(static_cast<double>(bytes), (100 * 40 + 7 * 780) / 4.0, 100);
    count += file.tensors.size();
  }
  EXPECT_EQ(count, 40);
  EXPECT_THROW(plan_tensor_files(tensors, 0), Error);
}

}  // namespace
}  // namespace gangway
