#include "checkpoint/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_writer.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class SafetensorsFileTest : public FolderTest {
 protected:
  fs::path path() const { return folder_ / "m.safetensors"; }
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const SafetensorsFile& file, const std::string& name) {
  const TensorEntry& tensor = *file.find(name);
  std::string text(tensor.end - tensor.begin, ' ');
  file.read(tensor, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST_F(SafetensorsFileTest, TensorsWrittenInAnyOrderAndPieceByPieceReadBack) {
  SafetensorsWriter out(path(), {{"a", FileDType::kU8, {5}}, {"b", FileDType::kI32, {2}}},
                        {{"step", "7"}});
  out.append("a", bytes_of("he"));
  out.append("b", bytes_of("01234567"));
  out.append("a", bytes_of("llo"));
  const std::string hash = out.finish();
  EXPECT_EQ(hash, content_hash(read(path())));

  SafetensorsFile file(path());
  EXPECT_EQ(file.header().metadata.at("step"), "7");
  EXPECT_EQ(text_of(file, "a"), "hello");
  EXPECT_EQ(text_of(file, "b"), "01234567");
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_TRUE(read(path()).ends_with("01234567hello"));
}

TEST_F(SafetensorsFileTest, DataBeginsAtAMultipleOfEightBytes) {
  for (const char* name : {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"}) {
    SafetensorsWriter out(folder_ / name, {{name, FileDType::kF64, {0}}});
    out.finish();
    EXPECT_EQ(fs::file_size(folder_ / name) % 8, 0);
  }
}

TEST_F(SafetensorsFileTest, AnUnfinishedFileIsRemoved) {
  {
    SafetensorsWriter out(path(), {{"a", FileDType::kU8, {5}}});
    out.append("a", bytes_of("he"));
    EXPECT_TRUE(fs::exists(path()));
    EXPECT_THROW(out.finish(), Error);
  }
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(SafetensorsFileTest, TheWriterRefusesUnknownTensorsAndTooManyBytes) {
  SafetensorsWriter out(path(), {{"a", FileDType::kU8, {5}}});
  EXPECT_THROW(out.append("b", bytes_of("x")), Error);
  EXPECT_THROW(out.append("a", bytes_of("sixsix")), Error);
}

TEST_F(SafetensorsFileTest, AnExistingFileIsNotOverwritten) {
  write("m.safetensors", "precious");
  EXPECT_THAT(error_text_of([&] { SafetensorsWriter(path(), {}); }),
              AllOf(HasSubstr("m.safetensors: File exists"),
                    HasSubstr("nothing is written over what is there")));
  EXPECT_EQ(read(path()), "precious");
}

// Stands for a disk that fails, or a writer that cuts its file short: it must give an error, and
// must not end the process.
TEST_F(SafetensorsFileTest, AFileThatIsCutShortWhileItIsReadIsAnErrorThatNamesIt) {
  constexpr size_t kBytes = 1 << 16;  // More than a page.
  SafetensorsWriter out(path(), {{"a", FileDType::kU8, {kBytes}}});
  out.append("a", bytes_of(std::string(kBytes, 'x')));
  out.finish();
  const SafetensorsFile file(path());
  fs::resize_file(path(), 100);
  const Error error = error_of([&] { text_of(file, "a"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr(path().string() + ": the file is damaged: at byte 100"));
}

TEST_F(SafetensorsFileTest, UnreadableFilesAreTypedErrors) {
  EXPECT_THROW(SafetensorsFile(folder_ / "absent"), Error);
  EXPECT_THROW(SafetensorsFile{folder_}, Error);
  EXPECT_THROW(SafetensorsFile("/dev/null"), Error);
  const Error error = error_of([&] { SafetensorsFile file(write("empty", "")); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("empty: the file is truncated"));
}

}  // namespace
}  // namespace gangway
