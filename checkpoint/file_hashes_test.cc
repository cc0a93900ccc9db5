#include "checkpoint/file_hashes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/hash.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using testing::HasSubstr;

using FileHashesTest = FolderTest;

TEST_F(FileHashesTest, HashesReadBackAsWrittenAndAreWrittenAsB2sumPrintsThem) {
  const FileHashes hashes = {{"a b.safetensors", content_hash("abc")}, {"c", content_hash("")}};
  write_file_hashes(folder_, hashes);
  EXPECT_EQ(read_file_hashes(folder_), hashes);
  EXPECT_EQ(read(folder_ / kHashesFile),
            "cf4ab791c62b8d2b2109c90275287816  a b.safetensors\n"
            "cae66941d9efbd404e4d88758ea67670  c\n");
  EXPECT_TRUE(read_file_hashes(folder_ / "absent").empty());
}

TEST_F(FileHashesTest, AMalformedFileIsRefusedWithItsLine) {
  const std::string row = content_hash("abc") + "  a\n";
  for (const std::string& text :
       {row + "x\n", row + content_hash("") + " b\n", row + content_hash("") + "  ../b\n",
        row + content_hash("") + "  b", row + content_hash("") + "  \n", row + row}) {
    const Error error = error_of([&] { parse_file_hashes(text, "FILE"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("FILE: line 2: ")) << text;
  }
}

}  // namespace
}  // namespace gangway
