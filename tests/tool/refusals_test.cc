// If the system or a range refuses something, a user gets a text that says what to do, and a status
// that is not 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <span>
#include <sstream>

#include "checkpoint/safetensors_writer.h"
#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/tool/run_tool.h"

namespace gangway::tool_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RefusalsTest : public testing::Test {
 protected:
  RefusalsTest() {
    ProgramBuilder b("twice", Mesh{{{"data", 2}}});
    b.output("y", b.input("x", f32({4}), {{"data", shard(0)}}) * 2.0, {{"data", shard(0)}});
    b.build().save(program_);
    std::ofstream(text_) << std::string(20'000, 'a');
  }

  std::string in(const char* name) const { return (folder_.path() / name).string(); }

  // The command line of a small training of `steps` steps.
  std::vector<std::string> training(const std::string& steps) const {
    return {"train",     "quickstart", "--connect", "local:1x1", "--text",         text_,
            "--out",     in("out"),    "--steps",   steps,       "--batch",        "2",
            "--layers",  "1",          "--dim",     "16",        "--heads",        "2",
            "--experts", "0",          "--seq",     "16",        "--sample-bytes", "0"};
  }

  TempDir folder_;
  const std::string program_ = in("twice.program"), text_ = in("text.txt");
};

TEST_F(RefusalsTest, PrintingToAFullDiskIsAnError) {
  const std::vector<std::vector<std::string>> commands = {
      {"--help"},
      {"--version"},
      {"train", "--help"},
      {"devices"},
      {"devices", "--json"},
      {"graph", program_},
      {"graph", program_, "--json"},
      {"graph", program_, "--memory"},
      {"sim", "--program", program_, "--runs", "1"},
      {"sim", "--program", program_, "--runs", "1", "--json"},
      {"run", program_, "--connect", "local:1x2", "--random", "1"},
      {"run", program_, "--connect", "local:1x2", "--random", "1", "--json"},
      {"controller", "--listen", "unix:" + in("socket")},
      training("1")};
  for (const std::vector<std::string>& command : commands) {
    const Ended ended = gangway_in_shell("", command, "> /dev/full");
    EXPECT_EQ(ended.status, 1) << command[0] << " " << command.back() << ": " << ended.text;
    EXPECT_THAT(ended.text, AllOf(HasSubstr("cannot write to standard output: No space left"),
                                  HasSubstr("hint: ")))
        << command[0] << " " << command.back();
  }
}

TEST_F(RefusalsTest, PrintingAboutARunningClusterToAFullDiskIsAnError) {
  const AnonymousFile said("controller"), executor_said("executor");
  const std::string at = "unix:" + in("socket"), file = in("one.safetensors");
  const ChildProcess controller({.arguments = {tests::gangway_tool(), "controller", "--listen", at},
                                 .output_file = said.path()});
  const ChildProcess executor({.arguments = {tests::gangway_tool(), "executor", "--connect", at,
                                             "--name", "h", "--memory", "67108864"},
                               .output_file = executor_said.path()});
  const Client client = connect(at, {.name = "p", .on_warning = [](const std::string&) {}});
  ASSERT_TRUE(eventually([&] { return client.status().hosts.size() == 1; }))
      << output_of(executor_said);
  client.log("a line");
  ASSERT_TRUE(eventually([&] { return !client.logs("p").lines.empty(); }));
  {
    SafetensorsWriter out(file, {{"w", FileDType::kF32, {1}}});
    const float one = 1;
    out.append("w", std::as_bytes(std::span(&one, 1)));
    out.finish();
  }
  const std::vector<std::vector<std::string>> commands = {
      {"ps", "--connect", at},
      {"ps", "--connect", at, "--json"},
      {"top", "--connect", at, "--once"},
      {"devices", "--connect", at},
      {"logs", "p", "--connect", at},
      {"drain", "h", "--connect", at},
      {"checkpoint", "ls", file},
      {"stop", "p", "--connect", at, "--grace", "0"}};
  for (const std::vector<std::string>& command : commands) {
    const Ended ended = gangway_in_shell("", command, "> /dev/full");
    EXPECT_EQ(ended.status, 1) << command[0] << ": " << ended.text;
    EXPECT_THAT(ended.text, HasSubstr("cannot write to standard output: No space left"))
        << command[0];
  }
}

TEST_F(RefusalsTest, PrintingToAClosedOutputIsAnErrorAndReachesNoFile) {
  const Ended ended = gangway_in_shell("", {"graph", program_}, ">&-");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.text, HasSubstr("cannot write to standard output"));
}

TEST_F(RefusalsTest, AFileSizeLimitEndsATrainingWithAText) {
  for (const char* blocks : {"1", "64"}) {
    const Ended ended = gangway_in_shell(std::string("ulimit -f ") + blocks + ";", training("1"));
    EXPECT_EQ(ended.status, 1) << ended.text;
    EXPECT_THAT(ended.text, AllOf(HasSubstr("File too large"), HasSubstr("ulimit -f"))) << blocks;
  }
}

TEST_F(RefusalsTest, ALimitOnAddressSpaceIsNamed) {
  const Ended ended = gangway_in_shell(
      "ulimit -v 30000000;", {"run", program_, "--connect", "local:1x2", "--random", "1"});
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("ulimit -v"));
}

TEST_F(RefusalsTest, ALimitOnOpenFilesIsNamedAndNotTheTool) {
  for (const char* files : {"8", "12", "16"}) {
    const Ended ended =
        gangway_in_shell(std::string("ulimit -n ") + files + ";",
                         {"run", program_, "--connect", "local:1x2", "--random", "1"});
    EXPECT_EQ(ended.status, 1) << files << ended.text;
    EXPECT_THAT(ended.text, AllOf(HasSubstr("ulimit -n"), Not(HasSubstr("GANGWAY_TOOL")))) << files;
  }
}

TEST_F(RefusalsTest, ATmpdirThatIsNoFolderIsNamedWithWhatToDo) {
  const std::vector<std::string> command = {"run",       program_,   "--connect",
                                            "local:1x2", "--random", "1"};
  for (const std::string& wrong : {in("missing"), program_}) {
    const Ended ended = gangway_in_shell("TMPDIR='" + wrong + "'; export TMPDIR;", command);
    EXPECT_EQ(ended.status, 2) << ended.text;
    EXPECT_THAT(ended.text, AllOf(HasSubstr("temporary folder " + wrong + " (TMPDIR)"),
                                  HasSubstr("hint: set TMPDIR"), Not(HasSubstr("bug"))));
  }
  for (const char* right : {"", "."})
    EXPECT_EQ(
        gangway_in_shell(std::string("TMPDIR='") + right + "'; export TMPDIR;", command).status, 0)
        << right;
}

// The command, then "--option" of each line of its help that takes a number.
std::vector<std::string> options_with_numbers(const std::string& help) {
  static const std::regex option("^  (?:-[a-z],)?(--[a-z-]+) (?:INT|UINT|FLOAT)[^\n]*");
  std::vector<std::string> found;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, option)) found.push_back(match[1]);
  }
  return found;
}

TEST_F(RefusalsTest, EveryNumberOfEveryCommandHasARangeAndRefusesOtherTexts) {
  size_t count = 0;
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"train"},
                                             {"run"},
                                             {"sim"},
                                             {"graph"},
                                             {"controller"},
                                             {"executor"},
                                             {"devices"},
                                             {"ps"},
                                             {"logs"},
                                             {"stop"},
                                             {"suspend"},
                                             {"resume"},
                                             {"top"},
                                             {"drain"},
                                             {"undrain"},
                                             {"forget"},
                                             {"checkpoint", "ls"},
                                             {"checkpoint", "rm"},
                                             {"token", "add"}}) {
    std::vector<std::string> asked = command;
    asked.emplace_back("--help");
    const std::string help = gangway(asked).text;
    for (const std::string& option : options_with_numbers(help)) {
      ++count;
      EXPECT_TRUE(std::regex_search(
          help, std::regex(option + " (INT|UINT|FLOAT):(-?[0-9.e+]+ to|above 0, up to)")))
          << command[0] << " " << option << " says no range";
      for (const char* value : {"nan", "1e999", "99999999999999999999999999", "1x"}) {
        std::vector<std::string> call = command;
        call.push_back(option + "=" + value);
        const Ended ended = gangway(call);
        EXPECT_EQ(ended.status, 2) << command[0] << " " << option << "=" << value;
        EXPECT_THAT(ended.text, AllOf(HasSubstr(option), HasSubstr("expected")));
        EXPECT_LT(ended.text.size(), 300u) << ended.text;
      }
    }
  }
  EXPECT_GT(count, 60u);
}

TEST_F(RefusalsTest, ANumberWithALeadingZeroIsNotTakenForAnOctalOne) {
  const Ended ended = gangway({"train", "quickstart", "--steps", "0100"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.text, AllOf(HasSubstr("--steps"), HasSubstr("got \"0100\"")));
}

TEST_F(RefusalsTest, ALongTextThatIsNoNumberIsShortenedInTheRefusal) {
  const Ended ended = gangway({"train", "quickstart", "--lr", std::string(309, '9')});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.text, HasSubstr("--lr: expected a number, above 0, up to 1000000, got \"999"));
  EXPECT_LT(ended.text.size(), 300u);
}

TEST_F(RefusalsTest, NamesThatAFileHasAreSpeltOutWhereATerminalWouldObeyThem) {
  const std::string file = in("hostile.safetensors");
  const std::string name = "a\033[2J\nb 1";
  {
    SafetensorsWriter out(file, {{name, FileDType::kF32, {1}}});
    const float one = 1;
    out.append(name, std::as_bytes(std::span(&one, 1)));
    out.finish();
  }
  const Ended table = gangway({"checkpoint", "ls", file});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.text, HasSubstr("a\\u001b[2J\\nb 1"));
  EXPECT_EQ(std::ranges::count(table.text, '\n'), 1);
  for (const std::string& text : {table.text, gangway({"checkpoint", "ls", file, "--json"}).text,
                                  gangway({"run", program_, "--input", "x=" + file}).text}) {
    EXPECT_THAT(text, Not(HasSubstr("\033")));
  }
}

}  // namespace
}  // namespace gangway::tool_test
