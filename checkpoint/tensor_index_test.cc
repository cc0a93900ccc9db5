#include "checkpoint/tensor_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

// Returns an index of one tensor, whose name makes the text `bytes` long.
TensorIndex index_of(uint64_t bytes) {
  const auto with_name = [](size_t size) {
    return TensorIndex{.file_of = {{std::string(size, 'n'), "model.safetensors"}},
                       .total_bytes = ~uint64_t{0}};
  };
  const size_t others = print_tensor_index(with_name(1), "INDEX").size() - 1;
  return with_name(bytes - others);
}

TEST(TensorIndexTest, AnIndexAtItsBoundIsReadAsItWasAndOneBeyondItIsNotWritten) {
  const TensorIndex index = index_of(TensorIndex::kBytesMax);
  const std::string text = print_tensor_index(index, "INDEX");
  EXPECT_EQ(text.size(), TensorIndex::kBytesMax);
  EXPECT_TRUE(parse_tensor_index(text, "INDEX") == index);
  const TensorIndex past = index_of(TensorIndex::kBytesMax + 1);
  EXPECT_THAT(error_of([&] { print_tensor_index(past, "INDEX"); }).what(),
              HasSubstr("INDEX: the index of 100000001 bytes is above the limit of 100000000"));
}

TEST(TensorIndexTest, AFileOfAnotherFolderIsNotWritten) {
  const TensorIndex index{.file_of = {{"w", "../model.safetensors"}}};
  EXPECT_THAT(error_of([&] { print_tensor_index(index, "INDEX"); }).what(),
              HasSubstr("INDEX: tensor w: expected the name of a .safetensors file"));
}

}  // namespace
}  // namespace gangway
