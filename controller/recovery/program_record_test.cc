#include "controller/recovery/program_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;
constexpr double kInf = std::numeric_limits<double>::infinity();

std::shared_ptr<const std::vector<std::byte>> bytes_of(std::string_view text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return std::make_shared<const std::vector<std::byte>>(first, first + text.size());
}

ProgramRecord a_program() {
  ProgramRecord program{.name = "a \"quoted\"\nname, \xC3\xA9",
                        .owner = "ann",
                        .share = {.weight = 0.1, .priority = -3},
                        .slices = {},
                        .executables = {},
                        .kept_slice = 1,
                        .recovery = {.every = 20,
                                     .keep = 3,
                                     .elastic = {"data"},
                                     .metadata = {{"seed", "7"}, {"a", ""}}},
                        .is_checkpointed = true};
  program.slices.resize(2);
  program.slices[0].shape = SliceShape(8, 2);
  program.slices[0].shape.axes = {4, 2};
  program.slices[0].shape.memory_bytes = 1 << 20;
  program.slices[0].readers = {"*", "bob"};
  program.slices[1].shape.exclusive = program.slices[1].shape.one_island = true;
  program.slices[1].shape.per_host_max = 3;
  program.executables.push_back({"evaluate", bytes_of(""), {0, 1}, 1, Dispatch::kSequential, 12});
  program.executables[0].states_since = 57;
  program.executables[0].texts = {{"books/a b.txt", 4096, "00ff"}, {"c", 1, "12"}};
  program.executables.push_back(
      {"train", bytes_of(std::string("\0\n{}\xFF", 5)), {1}, 2, Dispatch::kParallel, 0});
  program.repetition = {.executable = 1,
                        .steps = 1000,
                        .inputs = {},
                        .position = 40,
                        .first_version = 3,
                        .restorable_from = 4};
  auto& inputs = program.repetition.inputs;
  inputs.push_back({0, Schedule::linear(0.1, -1e-17)});
  inputs.push_back({1, Schedule::warmup_cosine({.peak = 1.0 / 3, .warmup = 5, .steps = 100})});
  inputs.push_back({2, Schedule::list({-0.0, kInf, -kInf, 5e-324, 1e308})});
  inputs.push_back({3, std::vector<std::byte>{std::byte{0}, std::byte{0xAF}}});
  return program;
}

std::string refused(const std::string& text) {
  const Error error = error_of([&] { parse_record(text, "FILE"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_FALSE(error.hint().empty());
  return error.message();
}

std::string head_of(const std::string& text) {
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.find('\n', begin) + 1 - begin);
}

TEST(ProgramRecordTest, WhatIsPrintedIsReadAsItWas) {
  const ProgramRecord program = a_program();
  const std::string text = print_record(program);
  const ProgramRecord read = parse_record(text, "FILE");
  EXPECT_EQ(print_record(read), text);
  EXPECT_EQ(read.name, program.name);
  EXPECT_EQ(read.share, program.share);
  EXPECT_EQ(read.recovery, program.recovery);
  EXPECT_EQ(read.slices.at(0).readers, program.slices[0].readers);
  EXPECT_EQ(read.slices[0].shape.axes, program.slices[0].shape.axes);
  EXPECT_EQ(*read.executables.at(1).program, *program.executables[1].program);
  EXPECT_EQ(read.executables[0].slices, program.executables[0].slices);
  EXPECT_EQ(read.executables[0].dispatch, Dispatch::kSequential);
  EXPECT_EQ(read.executables[0].states_since, 57u);
  EXPECT_EQ(read.executables[0].texts, program.executables[0].texts);
  ASSERT_EQ(read.repetition.inputs.size(), program.repetition.inputs.size());
  for (size_t i = 0; i < read.repetition.inputs.size(); ++i)
    EXPECT_EQ(read.repetition.inputs[i].value, program.repetition.inputs[i].value) << i;
  EXPECT_TRUE(std::signbit(
      std::get<Schedule::List>(std::get<Schedule>(read.repetition.inputs[2].value).form)[0]));
}

TEST(ProgramRecordTest, ANameThatCantBeReadAgainIsRefused) {
  ProgramRecord program = a_program();
  program.name = "caf\xE9";
  EXPECT_THAT(error_of([&] { print_record(program); }).what(), HasSubstr("no UTF-8"));
}

TEST(ProgramRecordTest, ATruncatedOrChangedFileIsRefused) {
  const std::string text = print_record(a_program());
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_THAT(refused(text.substr(0, size)), HasSubstr("state folder: FILE is ")) << size;
  EXPECT_THAT(refused(text + " "), HasSubstr("is corrupt: expected "));
  for (size_t at = text.find('\n') + 1; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 1;
    EXPECT_THAT(refused(changed), HasSubstr("another hash")) << at;
  }
}

TEST(ProgramRecordTest, AnotherVersionIsSaidToBeOne) {
  std::string text = print_record(a_program());
  text.replace(text.find("\"version\":1"), 11, "\"version\":9");
  EXPECT_THAT(refused(text), HasSubstr("FILE is of version 9: this controller reads and writes "
                                       "version 1"));
}

TEST(ProgramRecordTest, WhatNobodyPrintedIsRefused) {
  const std::string head = head_of(print_record(a_program()));
  const std::string bytes("\0\n{}\xFF", 5);
  EXPECT_EQ(parse_record(frame_record(head, bytes), "FILE").owner, "ann");
  EXPECT_THAT(refused(frame_record(head, bytes + "x")), HasSubstr("other executables than"));
  EXPECT_THAT(refused(frame_record(head, "")), HasSubstr("bytes of an executable are missing"));
  EXPECT_THAT(refused(frame_record("[]", bytes)), HasSubstr("expected a JSON object, got []"));
  const struct {
    const char *what, *by, *why;
  } rows[] = {
      {"\"owner\":\"ann\"", "\"owner\":\"a b\"", "a \"name\" and an \"owner\""},
      {"\"weight\":0.1", "\"weight\":0", "\"share\": its weight"},
      {"\"priority\":-3", "\"priority\":-3e9", "a \"priority\""},
      {"\"ranks_per_device\":2", "\"ranks_per_device\":3", "ranks"},
      {"\"axes\":[4,2]", "\"axes\":[4,3]", "expected axes of 8 devices"},
      {"\"readers\":[\"*\"", "\"readers\":[\"a b\"", "owners' names"},
      {"\"slices\":[0,1]", "\"slices\":[0,2]", "at most 1"},
      {"\"dispatch\":\"sequential\"", "\"dispatch\":\"later\"", "got \"later\""},
      {"\"kept_slice\":1", "\"kept_slice\":2", "\"kept_slice\""},
      {"\"every\":20", "\"every\":0", "expected one every 1 or more versions"},
      {"\"keep\":3", "\"keep\":-3", "\"keep\""},
      {"\"is_checkpointed\":true", "\"is_checkpointed\":1", "true or false"},
      {"\"executable\":1", "\"executable\":2", "\"executable\""},
      {"\"steps\":1000", "\"steps\":0", "1 or more \"steps\""},
      {"\"restorable_from\":4", "\"restorable_from\":2", "before the \"first_version\""},
      {"\"linear\":[", "\"linear\":[1,", "\"linear\""},
      {"\"inf\"", "\"much\"", "expected a number"},
      {"\"00af\"", "\"00aF\"", "a constant has the digit"},
      {"\"00af\"", "\"00a\"", "a constant of 3 digits"},
      {"\"position\":40,", "", "expected \"position\""},
  };
  for (const auto& row : rows) {
    std::string changed = head;
    ASSERT_NE(changed.find(row.what), changed.npos) << row.what;
    changed.replace(changed.find(row.what), std::string(row.what).size(), row.by);
    EXPECT_THAT(refused(frame_record(changed, bytes)), HasSubstr(row.why)) << row.by;
  }
}

}  // namespace
}  // namespace gangway
