#include "ir/wire/program_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/text/text.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

class ProgramFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "gw_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }

  std::string write(const char* name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  static std::string error_of_load(const std::string& path) {
    try {
      Program::load(path);
    } catch (const Error& error) {
      return cat(to_string(error.kind()), ": ", error.what());
    }
    return "no error";
  }

  static Program sample() {
    ProgramBuilder b("step");
    b.output("y", exp(b.input("x", f32({4}))));
    return b.build();
  }

  std::string bytes() const {
    std::vector<std::byte> all = to_file_bytes(sample());
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }

  std::filesystem::path folder_;
};

TEST_F(ProgramFile, ComesBackAsItWasSavedAndLeavesNoTemporaryFile) {
  Program p = sample();
  p.save(path("step.gwp"));
  p.save(path("step.gwp"));  // Over an older one.
  EXPECT_TRUE(same_graph(Program::load(path("step.gwp")), p));
  EXPECT_EQ(print(Program::load(path("step.gwp"))), print(p));
  auto files = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(ProgramFile, TheTextFormLoadsToo) {
  std::string file = write("step.gw", print(sample()));
  EXPECT_TRUE(same_graph(Program::load(file), sample()));
  std::string broken = write("broken.gw", "// A comment.\nprogram @p {\n  slice main mesh {}\n}");
  EXPECT_THAT(error_of_load(broken),
              HasSubstr("text: expected the slice's name in quotes, got \"main\""));
  EXPECT_THAT(error_of_load(broken), HasSubstr("at broken.gw:3:9"));
  EXPECT_THAT(error_of_load(broken), HasSubstr("in program file " + broken));
}

TEST_F(ProgramFile, ErrorsNameTheFileAndWhatIsWrong) {
  std::string good = bytes();
  std::string other_version = good;
  other_version[8] = 9;
  std::string flipped = good;
  flipped[40] = static_cast<char>(flipped[40] ^ 1);
  const std::pair<std::string, std::string> kCases[] = {
      {good.substr(0, 12), "truncated: the header is incomplete"},
      {good.substr(0, good.size() - 1), "truncated: expected "},
      {good + "x", "too long: 1 bytes follow the program"},
      {flipped, "damaged: the checksum differs"},
      {other_version, "is of version 9: expected version 1"},
      {"", "is empty"},
      {std::string("\x7f"
                   "ELF\1\0\0",
                   7),
       "is not a program: it begins with neither form of one"},
  };
  for (const auto& [content, expected] : kCases) {
    std::string file = write("bad.gwp", content);
    EXPECT_THAT(error_of_load(file), HasSubstr("invalid: program file " + file + ": " + expected));
  }
}

TEST_F(ProgramFile, AMissingFileOrFolderIsNamed) {
  std::string missing = path("missing.gwp");
  EXPECT_THAT(error_of_load(missing),
              HasSubstr("cannot read " + missing + ": No such file or directory"));
  try {
    sample().save(path("no/such/folder.gwp"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "cannot create " + path("no/such/folder.gwp") + ": No such file or directory");
  }
}

TEST_F(ProgramFile, AFailedSaveLeavesTheOldFile) {
  std::string folder = path("taken");
  std::filesystem::create_directory(folder);  // The rename onto a folder fails.
  EXPECT_THROW(sample().save(folder), Error);
  auto files = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

}  // namespace
}  // namespace gangway
