#include "controller/service/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "protocol/owner.h"
#include "protocol/text_limits.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Hosts = std::vector<KeptHost>;

class StateDirTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    state_ = folder_ / "state";
  }
  // The content of each file, by name.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(state_))
      if (entry.is_regular_file()) files[entry.path().filename()] = read(entry.path());
    return files;
  }
  // Returns why the folder is refused, and expects that nothing in it has changed.
  Error refused(ErrorKind kind = ErrorKind::kInvalid) const {
    const auto before = files();
    const Error error = error_of([this] { StateDir state(state_); });
    EXPECT_EQ(files(), before);
    EXPECT_EQ(error.kind(), kind);
    return error;
  }

  std::filesystem::path state_;
};

TEST_F(StateDirTest, WrittenHostsAreFound) {
  const Hosts hosts = {{"e1", "ann"}, {"a \"quoted\"\nname", "bob"}};
  {
    StateDir state(state_);
    EXPECT_THAT(state.hosts(), IsEmpty());
    state.write_hosts(Hosts{{"e0", "ann"}});
    state.write_hosts(hosts);
  }
  EXPECT_EQ(StateDir(state_).hosts(), hosts);
  EXPECT_EQ(parse_hosts(print_hosts(hosts), "hosts.jsonl"), hosts);
}

TEST_F(StateDirTest, AppendsToTheLogOfProgramsBehindAHalfWrittenLine) {
  const std::string header = "{\"gangway\":\"programs\",\"version\":1}\n";
  {
    StateDir state(state_);
    state.append_to_programs("{\"event\":\"one\"}\n");
    state.append_to_programs("{\"event\":\"two\"}\n{\"event\":\"three\"}\n");
  }
  const std::string lines =
      header + "{\"event\":\"one\"}\n{\"event\":\"two\"}\n{\"event\":\"three\"}\n";
  EXPECT_EQ(read(state_ / "programs.jsonl"), lines);
  FolderTest::write("state/programs.jsonl", lines + "{\"eve");
  StateDir(state_).append_to_programs("{\"event\":\"four\"}\n");
  EXPECT_EQ(read(state_ / "programs.jsonl"), lines + "{\"eve\n{\"event\":\"four\"}\n");
}

TEST_F(StateDirTest, TheLogOfProgramsIsBounded) {
  StateDir state(state_);
  const std::string lines(StateDir::kProgramsBytesMax / 2, '\n');
  for (int i = 0; i < 5; ++i) state.append_to_programs(lines);
  EXPECT_LE(std::filesystem::file_size(state_ / "programs.jsonl"), StateDir::kProgramsBytesMax);
  EXPECT_LE(std::filesystem::file_size(state_ / "programs.1.jsonl"), StateDir::kProgramsBytesMax);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(StateDirTest, AFolderInUseIsRefusedUntilItsControllerHasEnded) {
  {
    const StateDir first(state_);
    const Error error = refused();
    EXPECT_THAT(error.what(), HasSubstr(state_.string() + " is in use by another controller"));
    EXPECT_THAT(error.hint(), HasSubstr("another folder with --state-dir"));
  }
  const StateDir second(state_);
}

TEST_F(StateDirTest, APathThatCantBeAFolderIsRefused) {
  FolderTest::write("file", "text");
  for (const char* path : {"file", "file/state"}) {
    const Error error = error_of([&] { StateDir state(folder_ / path); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr((folder_ / path).string() + " can't be made a folder"));
  }
  // A folder that nobody can write to, not even root.
  const Error error = error_of([] { StateDir state("/proc/self/fdinfo"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("/proc/self/fdinfo can't be written: "));
  EXPECT_THAT(error.hint(), HasSubstr("--state-dir"));
}

TEST_F(StateDirTest, AnotherVersionIsRefused) {
  std::filesystem::create_directory(state_);
  FolderTest::write("state/hosts.jsonl",
                    "{\"gangway\":\"hosts\",\"version\":7,\"what\":[]}\nwhat\n");
  Error error = refused(ErrorKind::kUnimplemented);
  EXPECT_THAT(error.what(), HasSubstr("hosts.jsonl is of version 7: this controller reads and "
                                      "writes version 1"));
  EXPECT_THAT(error.hint(), HasSubstr("another folder with --state-dir"));
  FolderTest::write("state/hosts.jsonl", print_hosts(Hosts{}));
  FolderTest::write("state/programs.jsonl", "{\"gangway\":\"programs\",\"version\":2}\n");
  error = refused(ErrorKind::kUnimplemented);
  EXPECT_THAT(error.what(), HasSubstr("programs.jsonl is of version 2"));
}

TEST_F(StateDirTest, ACorruptListOfHostsIsSetAsideWithItsLine) {
  std::filesystem::create_directory(state_);
  const std::string header = "{\"gangway\":\"hosts\",\"version\":1,\"hosts\":1}\n";
  const std::string host = "{\"name\":\"e1\",\"owner\":\"ann\"}\n";
  const std::pair<std::string, std::string> rows[] = {
      {"", ":1 is corrupt: it is empty"},
      {"[]\n", ":1 is corrupt: expected a JSON object, got []"},
      {"{\"gangway\":\"cats\",\"version\":1}\n", ":1 is corrupt: expected a file of hosts"},
      {"{\"gangway\":\"hosts\",\"version\":\"1\"}\n", ":1 is corrupt: expected a whole number"},
      {"{\"gangway\":\"hosts\",\"version\":1}\n", ":1 is corrupt: expected a number of \"hosts\""},
      {header, ":1 is corrupt: expected 1 hosts, got 0"},
      {header + host.substr(0, 20), ":2 is corrupt: the line has no end"},
      {header + host.substr(0, 20) + "\n", ":2 is corrupt: expected a JSON object, got {\"name\""},
      {header + "{\"name\":\"e1\"}\n", ":2 is corrupt: expected a text \"owner\""},
      {header + "{\"name\":3,\"owner\":\"ann\"}\n", ":2 is corrupt: expected a text \"name\""},
      {header + "{\"name\":\"\",\"owner\":\"ann\"}\n", ":2 is corrupt: expected a name of a host"},
      {header + "{\"name\":\"e\",\"owner\":\"a b\"}\n", ":2 is corrupt: expected an owner's name"},
      {header + host + host, ":3 is corrupt: the name \"e1\" is there twice"},
      {header + std::string(20'000, '['), ":2 is corrupt: the line has no end"},
      {header + std::string(20'000, '[') + "\n", ":2 is corrupt: the line is too long"},
  };
  for (const auto& [text, why] : rows) {
    FolderTest::write("state/hosts.jsonl", text);
    const StateDir state(state_);
    EXPECT_THAT(state.hosts(), IsEmpty());
    ASSERT_EQ(state.set_aside().size(), 1u);
    EXPECT_THAT(state.set_aside()[0].why, HasSubstr((state_ / "hosts.jsonl").string() + why));
    EXPECT_EQ(read(state.set_aside()[0].is), text);
  }
}

TEST_F(StateDirTest, ALogThatNobodyWroteIsSetAside) {
  FolderTest::write("state/programs.jsonl", "what\n");
  StateDir state(state_);
  ASSERT_EQ(state.set_aside().size(), 1u);
  state.append_to_programs("{\"event\":\"one\"}\n");
  EXPECT_EQ(read(state_ / "programs.jsonl"),
            "{\"gangway\":\"programs\",\"version\":1}\n{\"event\":\"one\"}\n");
}

TEST_F(StateDirTest, HostsAtTheBoundsOfTheirNamesAreReadAsTheyWere) {
  Hosts hosts;
  for (int i = 0; i < 4096; ++i)
    hosts.push_back(
        {cat(std::string(kQuotedBytesMax, '\x01'), "-", i), std::string(kOwnerBytesMax, 'o')});
  EXPECT_EQ(parse_hosts(print_hosts(hosts), "hosts.jsonl"), hosts);
}

TEST_F(StateDirTest, AHostsNameOfControlBytesIsReadAsItWas) {
  std::string name;
  for (char byte = 0x01; byte <= 0x1f; ++byte) name += byte;
  const Hosts hosts = {{name, "ann"}};
  EXPECT_EQ(parse_hosts(print_hosts(hosts), "hosts.jsonl"), hosts);
}

ProgramRecord a_program(const std::string& name) {
  ProgramRecord program{.name = name, .owner = "ann", .recovery = {.every = 5}};
  program.slices.resize(1);
  program.executables.push_back(
      {"train", std::make_shared<const std::vector<std::byte>>(3, std::byte{7}), {0}});
  program.repetition.steps = 10;
  return program;
}

TEST_F(StateDirTest, ALogThatCannotBeReadIsSetAsideWithTheReason) {
  const std::filesystem::path log = state_ / "programs.jsonl";
  std::filesystem::create_directories(log);
  const StateDir state(state_);
  ASSERT_EQ(state.set_aside().size(), 1u);
  EXPECT_THAT(state.set_aside()[0].why,
              HasSubstr("cannot read " + log.string() + ": Is a directory"));
}

TEST_F(StateDirTest, WrittenProgramsAreFoundAndOtherUsersCannotReadThem) {
  const ProgramRecord one = a_program("a/b.c"), other = a_program("other");
  {
    StateDir state(state_);
    EXPECT_THAT(state.programs(), IsEmpty());
    state.remove_program("ann", "nobody");
    for (const ProgramRecord& program : {other, one, other})
      state.write_program(program.owner, program.name, print_record(program));
    state.write_program("ann", "third", print_record(a_program("third")));
    state.remove_program("ann", "third");
  }
  const std::string half_written[] = {"hosts.jsonl.0123abcd.new",
                                      "programs/ann.other.89abcdef.new"};
  for (const std::string& name : half_written) FolderTest::write("state/" + name, "half of it");
  const StateDir state(state_);
  for (const std::string& name : half_written) EXPECT_FALSE(std::filesystem::exists(state_ / name));
  ASSERT_EQ(state.programs().size(), 2u);
  EXPECT_EQ(print_record(state.programs()[0]), print_record(one));
  EXPECT_EQ(print_record(state.programs()[1]), print_record(other));
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(state_ / "programs").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(state_ / "programs" / "ann.a%2Fb%2Ec").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

// A program's name may be "new", or a file's ending, or as long as names may be.
TEST_F(StateDirTest, FindsProgramsWhateverTheyAreCalled) {
  std::vector<std::string> names = {"new", "trial", ".new", "a.new"};
  for (const char last : {'1', '2'})
    names.push_back(std::string(ProgramRecord::kNameBytesMax - 1, '/') + last);
  const std::string owner(kOwnerBytesMax, '.');
  {
    StateDir state(state_);
    for (const std::string& name : names) {
      ProgramRecord program = a_program(name);
      program.owner = owner;
      state.write_program(owner, name, print_record(program));
    }
  }
  std::set<std::string> found;
  const StateDir again(state_);
  for (const ProgramRecord& program : again.programs()) found.insert(program.name);
  EXPECT_EQ(found, std::set<std::string>(names.begin(), names.end()));
}

TEST_F(StateDirTest, ARecordThatCantBeReadIsSetAsideAndCostsNoOtherProgram) {
  const std::string text = print_record(a_program("train"));
  const std::pair<std::string, std::string> rows[] = {
      {text.substr(0, text.size() - 1), " is corrupt: expected "},
      {text.substr(0, 30), " is corrupt: "},
      {"", " is corrupt: "},
      {print_record(a_program("eval")), " is of the program \"eval\" of ann"},
  };
  FolderTest::write("state/programs/ann.other", print_record(a_program("other")));
  int times = 0;
  for (const auto& [bytes, why] : rows) {
    FolderTest::write("state/programs/ann.train", bytes);
    {
      const StateDir state(state_);
      ASSERT_EQ(state.programs().size(), 1u);
      EXPECT_EQ(state.programs()[0].name, "other");
      ASSERT_EQ(state.set_aside().size(), 1u);
      const StateDir::SetAside& file = state.set_aside()[0];
      EXPECT_EQ(file.was, state_ / "programs/ann.train");
      EXPECT_THAT(file.why, HasSubstr(file.was.string() + why));
      EXPECT_EQ(file.is,
                state_ / "set_aside" / (++times == 1 ? "ann.train" : cat("ann.train~", times)));
      EXPECT_EQ(read(file.is), bytes);
      EXPECT_FALSE(std::filesystem::exists(file.was));
    }
    EXPECT_THAT(StateDir(state_).set_aside(), IsEmpty());
  }
}

TEST_F(StateDirTest, ARecordOfAnotherVersionIsRefusedAndStaysWhereItIs) {
  std::string later = print_record(a_program("train"));
  later.replace(later.find("\"version\":1"), 11, "\"version\":2");
  FolderTest::write("state/programs/ann.train", later);
  const Error error = error_of([this] { StateDir state(state_); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
  EXPECT_THAT(error.what(), HasSubstr((state_ / "programs/ann.train").string() +
                                      " is of version 2: this controller reads and writes "
                                      "version 1"));
  EXPECT_FALSE(error.hint().empty());
  EXPECT_EQ(read(state_ / "programs/ann.train"), later);
}

TEST_F(StateDirTest, AFileInPlaceOfTheFolderOfProgramsIsRefused) {
  FolderTest::write("state/programs", "in the way");
  const Error error = error_of([this] { StateDir state(state_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr((state_ / "programs").string() + ": Not a directory"));
}

}  // namespace
}  // namespace gangway
