#include "controller/programs/program_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "controller/scheduler/repeats.h"
#include "protocol/messages.h"
#include "protocol/owner.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;
constexpr double kInf = std::numeric_limits<double>::infinity();

std::shared_ptr<const std::vector<std::byte>> bytes_of(std::string_view text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return std::make_shared<const std::vector<std::byte>>(first, first + text.size());
}

EarlierInput earlier(uint32_t input, const EarlierSchedule& schedule) {
  return {input, std::make_shared<const EarlierSchedule>(schedule)};
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
                        .released_states = {"z"},
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
  inputs.push_back({3, std::vector<std::byte>{std::byte{0}, std::byte{0xAF}}});
  program.repetition.earlier = {
      earlier(1, EarlierSchedule(WarmupCosine{.peak = 1.0 / 3, .warmup = 5, .steps = 100})),
      earlier(2, EarlierSchedule(EarlierSchedule::List{-0.0, kInf, -kInf, 5e-324, 1e308}))};
  return program;
}

std::string refused(const std::string& text, ErrorKind kind = ErrorKind::kInvalid) {
  const Error error = error_of([&] { parse_record(text, "FILE"); });
  EXPECT_EQ(error.kind(), kind);
  EXPECT_FALSE(error.hint().empty());
  return error.message();
}

std::string head_of(const std::string& text) {
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.find('\n', begin) + 1 - begin);
}

TEST(ProgramRecordTest, ARecordReadsBackAsItWasWritten) {
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
  EXPECT_EQ(read.released_states, program.released_states);
  ASSERT_EQ(read.repetition.inputs.size(), program.repetition.inputs.size());
  for (size_t i = 0; i < read.repetition.inputs.size(); ++i)
    EXPECT_EQ(read.repetition.inputs[i].value, program.repetition.inputs[i].value) << i;
  ASSERT_EQ(read.repetition.earlier.size(), program.repetition.earlier.size());
  for (size_t i = 0; i < read.repetition.earlier.size(); ++i) {
    const EarlierInput &found = read.repetition.earlier[i], &given = program.repetition.earlier[i];
    EXPECT_EQ(found.input, given.input);
    EXPECT_EQ(found.schedule->form, given.schedule->form);
  }
  EXPECT_TRUE(std::signbit(read.repetition.earlier[1].schedule->value_at(0)));
}

// A record that the first release with records wrote, and that stays readable.
constexpr char kFirstRelease[] =
    R"({"gangway":"program","version":1,"head":717,"bytes":3,)"
    R"("hash":"d4fd2d77cd087ea34449c9e48b182a6e"})"
    "\n"
    R"({"name":"train","owner":"ann","share":{"weight":1.0,"priority":0},)"
    R"("slices":[{"devices":4,"ranks_per_device":1,"axes":[],"one_island":false,)"
    R"("per_host_max":0,"memory_bytes":0,"exclusive":false,"readers":["*"]}],)"
    R"("executables":[{"name":"step","bytes":3,"slices":[0],"runs_in_flight_max":2,)"
    R"("dispatch":"parallel","position":0}],"kept_slice":0,"recovery":{"every":20,"keep":2,)"
    R"("elastic":["data"],"metadata":{"a":"b"}},"is_checkpointed":true,)"
    R"("repetition":{"executable":0,"steps":100,"inputs":[{"linear":[1.0,"inf"],"input":0},)"
    R"({"warmup_cosine":{"peak":0.1,"warmup":1,"steps":10,"final_share":0.0,"begin":0},)"
    R"("input":1},{"list":[1.5],"input":2},{"constant":"00ff","input":3}],"position":0,)"
    R"("first_version":0,"restorable_from":0}})"
    "\nabc";

TEST(ProgramRecordTest, ARecordOfTheFirstReleaseIsRead) {
  const ProgramRecord program = parse_record(kFirstRelease, "FILE");
  EXPECT_EQ(program.name, "train");
  EXPECT_EQ(program.owner, "ann");
  EXPECT_EQ(program.slices.at(0).shape.devices, 4u);
  EXPECT_EQ(program.slices[0].readers, std::set<std::string>{"*"});
  EXPECT_EQ(*program.executables.at(0).program, *bytes_of("abc"));
  EXPECT_TRUE(program.executables[0].texts.empty());
  EXPECT_TRUE(program.released_states.empty());
  EXPECT_EQ(program.executables[0].states_since, 0u);
  EXPECT_EQ(program.recovery.every, 20u);
  EXPECT_TRUE(program.is_checkpointed);
  ASSERT_EQ(program.repetition.inputs.size(), 2u);
  EXPECT_EQ(program.repetition.inputs[0].input, 0u);
  EXPECT_EQ(program.repetition.inputs[1].input, 3u);
  ASSERT_EQ(program.repetition.earlier.size(), 2u);
  EXPECT_EQ(program.repetition.earlier[0].input, 1u);
  EXPECT_EQ(program.repetition.earlier[0].schedule->value_at(1), 0.1);
  EXPECT_NEAR(program.repetition.earlier[0].schedule->value_at(10), 0, 1e-12);
  EXPECT_EQ(program.repetition.earlier[1].input, 2u);
  EXPECT_EQ(program.repetition.earlier[1].schedule->value_at(7), 1.5);
  EXPECT_EQ(print_record(parse_record(print_record(program), "FILE")), print_record(program));
}

// The bytes of a head do not change from release to release, unless a field is added.
TEST(ProgramRecordTest, ARecordHasTheKeysOfTheFirstReleaseInTheirOrderAndTheNewOnes) {
  std::string head = head_of(kFirstRelease);
  const struct {
    const char *before, *added;
  } rows[] = {
      {"\"position\":0}],", "\"position\":0,\"states_since\":0,\"texts\":[]}],"},
      {"\"keep\":2,", "\"keep\":2,\"first\":0,"},
      {"\"is_checkpointed\":", "\"released_states\":[],\"is_checkpointed\":"},
  };
  for (const auto& row : rows) {
    ASSERT_NE(head.find(row.before), head.npos) << row.before;
    head.replace(head.find(row.before), std::string(row.before).size(), row.added);
  }
  EXPECT_EQ(head_of(print_record(parse_record(kFirstRelease, "FILE"))), head);
}

TEST(ProgramRecordTest, TextsOfControlBytesAreReadAsTheyWere) {
  std::string bytes;
  for (char byte = 0x01; byte <= 0x1f; ++byte) bytes += byte;
  ProgramRecord program = a_program();
  program.name = bytes;
  program.executables[0].name = bytes;
  program.executables[0].texts = {{bytes, 1, bytes}};
  program.recovery.elastic = {bytes};
  program.recovery.metadata = {{bytes, bytes}};
  program.released_states = {bytes};
  const std::string text = print_record(program);
  EXPECT_THAT(head_of(text), HasSubstr("\\u001e\\u001f"));
  const ProgramRecord read = parse_record(text, "FILE");
  EXPECT_EQ(read.name, bytes);
  EXPECT_EQ(read.executables.at(0).name, bytes);
  EXPECT_EQ(read.executables[0].texts, program.executables[0].texts);
  EXPECT_EQ(read.recovery, program.recovery);
  EXPECT_EQ(read.released_states, program.released_states);
  EXPECT_EQ(print_record(read), text);
}

TEST(ProgramRecordTest, UnknownFieldsAndWhiteSpaceArePassedOver) {
  std::string head = head_of(kFirstRelease);
  head.replace(0, 1, "{ \"later\" : [ {} ],\n");
  EXPECT_EQ(print_record(parse_record(frame_record(head, "abc"), "FILE")),
            print_record(parse_record(kFirstRelease, "FILE")));
}

TEST(ProgramRecordTest, ANameThatCantBeReadAgainIsRefused) {
  ProgramRecord program = a_program();
  program.name = "caf\xE9";
  EXPECT_THAT(error_of([&] { print_record(program); }).what(),
              HasSubstr("expected \"name\" to be 1 to 512 bytes of UTF-8 text, got 4 bytes"));
}

// A bound of a number, a count or a length, and a function that sets it.
struct Bound {
  const char* what;
  uint64_t max;
  std::function<void(ProgramRecord&, uint64_t)> set;
};

const Bound kBounds[] = {
    {"name", ProgramRecord::kNameBytesMax,
     [](ProgramRecord& p, uint64_t n) { p.name = std::string(n, 'n'); }},
    {"owner", kOwnerBytesMax, [](ProgramRecord& p, uint64_t n) { p.owner = std::string(n, 'o'); }},
    {"priority", kPriorityMax,
     [](ProgramRecord& p, uint64_t n) { p.share.priority = static_cast<int32_t>(n); }},
    {"slices", ProgramRecord::kSlicesMax, [](ProgramRecord& p, uint64_t n) { p.slices.resize(n); }},
    {"slices of an executable", ProgramRecord::kSlicesMax,
     [](ProgramRecord& p, uint64_t n) { p.executables[0].slices.assign(n, 1); }},
    {"executables", ProgramRecord::kExecutablesMax,
     [](ProgramRecord& p, uint64_t n) { p.executables.resize(n, p.executables[0]); }},
    {"an executable's name", ProgramRecord::kExecutableNameBytesMax,
     [](ProgramRecord& p, uint64_t n) { p.executables[0].name = std::string(n, '\x01'); }},
    {"an executable's position", ProgramRecord::kCountMax,
     [](ProgramRecord& p, uint64_t n) { p.executables[0].position = n; }},
    {"an executable's states_since", ProgramRecord::kCountMax,
     [](ProgramRecord& p, uint64_t n) { p.executables[0].states_since = n; }},
    {"texts", kTextsMax,
     [](ProgramRecord& p, uint64_t n) {
       p.executables[0].texts.assign(n, SourceText{"path", 1, "00"});
     }},
    {"a text's path", kTextPathBytesMax,
     [](ProgramRecord& p, uint64_t n) {
       p.executables[0].texts = {SourceText{std::string(n, 'p'), 1, "00"}};
     }},
    {"a text's bytes", ProgramRecord::kCountMax,
     [](ProgramRecord& p, uint64_t n) { p.executables[0].texts = {SourceText{"path", n, "00"}}; }},
    {"readers", ProgramRecord::kReadersMax,
     [](ProgramRecord& p, uint64_t n) {
       p.slices[0].readers.clear();
       for (uint64_t i = 0; i < n; ++i) p.slices[0].readers.insert(cat("owner-", i));
     }},
    {"axes", kSliceAxesMax,
     [](ProgramRecord& p, uint64_t n) {
       p.slices[0].shape = SliceShape(1);
       p.slices[0].shape.axes.assign(n, 1);
     }},
    {"memory_bytes", kSliceMemoryBytesMax,
     [](ProgramRecord& p, uint64_t n) {
       p.slices[0].shape.memory_bytes = static_cast<int64_t>(n);
     }},
    {"every", kCheckpointEveryMax, [](ProgramRecord& p, uint64_t n) { p.recovery.every = n; }},
    {"keep", kCheckpointsKeptMax,
     [](ProgramRecord& p, uint64_t n) { p.recovery.keep = static_cast<int>(n); }},
    {"first", kFirstVersionMax, [](ProgramRecord& p, uint64_t n) { p.recovery.first = n; }},
    {"elastic", kElasticAxesMax,
     [](ProgramRecord& p, uint64_t n) { p.recovery.elastic.assign(n, "a"); }},
    {"an elastic axis", kQuotedBytesMax,
     [](ProgramRecord& p, uint64_t n) { p.recovery.elastic = {std::string(n, 'a')}; }},
    {"metadata", kMetadataMax,
     [](ProgramRecord& p, uint64_t n) {
       p.recovery.metadata.clear();
       for (uint64_t i = 0; i < n; ++i) p.recovery.metadata[cat("key-", i)] = "text";
     }},
    {"a key of metadata", kQuotedBytesMax,
     [](ProgramRecord& p, uint64_t n) { p.recovery.metadata = {{std::string(n, 'k'), ""}}; }},
    {"a text of metadata", kTextBytesMax,
     [](ProgramRecord& p, uint64_t n) { p.recovery.metadata = {{"key", std::string(n, 't')}}; }},
    {"released_states", ProgramRecord::kReleasedStatesMax,
     [](ProgramRecord& p, uint64_t n) { p.released_states.assign(n, "s"); }},
    {"a released state", kTextBytesMax,
     [](ProgramRecord& p, uint64_t n) { p.released_states = {std::string(n, 's')}; }},
    {"steps", kRepeatStepsMax,
     [](ProgramRecord& p, uint64_t n) { p.repetition.steps = static_cast<int64_t>(n); }},
    {"inputs", ProgramRecord::kInputsMax,
     [](ProgramRecord& p, uint64_t n) {
       p.repetition.earlier.assign(2, earlier(7, EarlierSchedule(WarmupCosine{.steps = 5})));
       p.repetition.inputs.assign(n - 2, {7, Schedule::linear(0, 1)});
     }},
    {"values of lists", kScheduleValuesMax,
     [](ProgramRecord& p, uint64_t n) {
       p.repetition.earlier = {earlier(0, EarlierSchedule(EarlierSchedule::List{0.1})),
                               earlier(1, EarlierSchedule(EarlierSchedule::List(n - 1, 0.1)))};
     }},
    {"bytes of constants", kInlineBytesMax,
     [](ProgramRecord& p, uint64_t n) {
       p.repetition.inputs = {{0, std::vector<std::byte>(1)}, {1, std::vector<std::byte>(n - 1)}};
     }},
    {"the repetition's position", ProgramRecord::kCountMax,
     [](ProgramRecord& p, uint64_t n) { p.repetition.position = n; }},
    {"first_version", ProgramRecord::kCountMax,
     [](ProgramRecord& p, uint64_t n) {
       p.repetition.first_version = p.repetition.restorable_from = n;
     }},
    {"restorable_from", ProgramRecord::kCountMax,
     [](ProgramRecord& p, uint64_t n) { p.repetition.restorable_from = n; }},
};

TEST(ProgramRecordTest, RecordsAtABoundReadBackAndRecordsBeyondItAreNotWritten) {
  for (const Bound& bound : kBounds) {
    ProgramRecord program = a_program();
    bound.set(program, bound.max);
    const std::string text = print_record(program);
    EXPECT_EQ(print_record(parse_record(text, "FILE")), text) << bound.what;
    bound.set(program, bound.max + 1);
    EXPECT_EQ(error_of([&] { print_record(program); }).kind(), ErrorKind::kInvalid) << bound.what;
  }
}

TEST(ProgramRecordTest, RecordsBeyondABoundAreRefusedWhenRead) {
  for (const Bound& bound : kBounds) {
    ProgramRecord program = a_program();
    bound.set(program, bound.max + 1);
    EXPECT_THAT(refused(print_unchecked(program)), HasSubstr("FILE is corrupt: ")) << bound.what;
  }
}

TEST(ProgramRecordTest, TheBytesOfExecutablesAreBoundedTogether) {
  ProgramRecord program = a_program();
  constexpr size_t kEach = 1 << 20;
  program.executables.assign(ProgramRecord::kExecutablesBytesMax / kEach, program.executables[0]);
  const size_t others = executable_bytes(program.executables[0]);  // Its program has 0 bytes.
  const auto whole = std::make_shared<const std::vector<std::byte>>(kEach - others);
  for (ProgramRecord::Executable& executable : program.executables) executable.program = whole;
  require_record(program);
  program.executables[0].program = std::make_shared<const std::vector<std::byte>>(kEach);
  EXPECT_THAT(error_of([&] { require_record(program); }).what(),
              HasSubstr("bytes of \"executables\", got "));
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

TEST(ProgramRecordTest, ARecordOfAnotherVersionIsRefusedNamingBothVersions) {
  std::string text = print_record(a_program());
  text.replace(text.find("\"version\":1"), 11, "\"version\":9");
  EXPECT_THAT(refused(text, ErrorKind::kUnimplemented),
              HasSubstr("FILE is of version 9: this controller reads and writes version 1"));
}

TEST(ProgramRecordTest, RecordsWithInvalidFieldsAreRefusedWithWhatWasExpected) {
  const std::string head = head_of(print_record(a_program()));
  const std::string bytes("\0\n{}\xFF", 5);
  EXPECT_EQ(parse_record(frame_record(head, bytes), "FILE").owner, "ann");
  EXPECT_THAT(refused(frame_record(head, bytes + "x")), HasSubstr("other executables than"));
  EXPECT_THAT(refused(frame_record(head, "")), HasSubstr("bytes of an executable are missing"));
  EXPECT_THAT(refused(frame_record("[]", bytes)), HasSubstr("expected a JSON object, got []"));
  const struct {
    const char *what, *by, *why;
  } rows[] = {
      {"\"owner\":\"ann\"", "\"owner\":\"a b\"", "expected an \"owner\""},
      {"\"weight\":0.1", "\"weight\":0", "\"share\": its weight"},
      {"\"priority\":-3", "\"priority\":-3e9", "a \"priority\""},
      {"\"priority\":-3", "\"priority\":18446744073709551615", "a \"priority\""},
      {"\"ranks_per_device\":2", "\"ranks_per_device\":3", "ranks"},
      {"\"axes\":[4,2]", "\"axes\":[4,3]", "expected axes of 8 devices"},
      {"\"readers\":[\"*\"", "\"readers\":[\"a b\"", "owners' names"},
      {"\"slices\":[0,1]", "\"slices\":[0,2]", "at most 1"},
      {"\"dispatch\":\"sequential\"", "\"dispatch\":\"later\"", "got \"later\""},
      {"\"kept_slice\":1", "\"kept_slice\":2", "\"kept_slice\""},
      {"\"every\":20", "\"every\":0", "expected one every 1 or more versions"},
      {"\"every\":20", "\"every\":9223372036854775808", "\"every\""},
      {"\"keep\":3", "\"keep\":-3", "\"keep\""},
      {"\"is_checkpointed\":true", "\"is_checkpointed\":1", "true or false"},
      {"\"executable\":1", "\"executable\":2", "\"executable\""},
      {"\"steps\":1000", "\"steps\":0", "1 or more \"steps\""},
      {"\"restorable_from\":4", "\"restorable_from\":2", "before the \"first_version\""},
      {"\"linear\":[", "\"linear\":[1,", "\"linear\""},
      {"\"linear\":[0.1,-1e-17]", "\"linear\":[0.1]", "a \"linear\" of two numbers"},
      {"\"inputs\":[", "\"inputs\":[3,", "expected \"input\""},
      {"\"metadata\":{", "\"metadata\":[],\"was\":{", "\"metadata\" to be an object"},
      {"\"keep\":3", "\"keep\":1001", "\"keep\" to be a whole number of at most 1000"},
      {"\"kept_slice\":1", "\"kept_slice\":4294967296", "a whole number of at most 4294967295"},
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
