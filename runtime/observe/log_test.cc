#include "runtime/observe/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string lines_of(LogOptions options, const std::function<void(const Logs&)>& body) {
  TempDir dir;
  options.file = (dir.path() / "log").string();
  {
    Logs logs(options);
    body(logs);
  }
  std::ifstream in(options.file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Log, WritesModuleMessageAndFields) {
  const std::string text = lines_of({.levels = "info"}, [](const Logs& logs) {
    logs.module("controller").info("host joined", {{"host", 3}, {"name", "h3"}});
  });
  EXPECT_THAT(text, HasSubstr(" info  controller: host joined  host=3 name=h3\n"));
}

TEST(Log, ANameWithLinesInItWritesNoLinesOfItsOwn) {
  const std::string text = lines_of({.levels = "info"}, [](const Logs& logs) {
    logs.module("a").info("client joined", {{"name", "x\n12:00 error controller: all is lost"}});
  });
  EXPECT_THAT(text, HasSubstr("client joined  name=x\\n12:00 error controller: all is lost\n"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

TEST(Log, IsQuietUnlessAskedAndListensToEachModulesLevel) {
  const std::string quiet = lines_of({.levels = "warn"}, [](const Logs& logs) {
    logs.module("a").info("nothing");
    Logger().error("silent");
  });
  EXPECT_EQ(quiet, "");
  const std::string text = lines_of({.levels = "error,a=debug"}, [](const Logs& logs) {
    logs.module("a").debug("shown");
    logs.module("b").warn("hidden");
  });
  EXPECT_THAT(text, HasSubstr("shown"));
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
}

TEST(Log, JsonLinesQuoteWhatTheyCarry) {
  const std::string text =
      lines_of({.levels = "info", .format = LogFormat::kJson},
               [](const Logs& logs) { logs.module("a").info("say \"hi\"\n", {{"k", "v\\"}}); });
  EXPECT_THAT(text, HasSubstr(R"(Z","level":"info","module":"a","msg":"say \"hi\"\n","k":"v\\"})"));
  EXPECT_TRUE(text.starts_with("{\"ts\":\""));
}

TEST(Log, AJsonLineIsJsonWhateverBytesItCarries) {
  const std::string text =
      lines_of({.levels = "info", .format = LogFormat::kJson}, [](const Logs& logs) {
        logs.module("a").info("from \xff\xfe\x80", {{"path", "\x7f\x01\xc3"}});
      });
  const nlohmann::json line = nlohmann::json::parse(text);
  EXPECT_EQ(line["level"], "info");
  EXPECT_THAT(line["msg"], testing::StartsWith("from "));
}

TEST(Log, UnknownLevelSaysWhichExist) {
  try {
    Logs logs({.levels = "warn,a=loud"});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("log level \"loud\" in \"warn,a=loud\" does not exist"));
  }
}

}  // namespace
}  // namespace gangway
