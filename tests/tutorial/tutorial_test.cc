// The tutorial shows the examples as they are, so the code that a newcomer copies is built and run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/places.h"

namespace gangway {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The texts between "```LANGUAGE" and "```".
std::vector<std::string> blocks(const std::string& text, const std::string& language) {
  const std::string begin = "```" + language + "\n";
  std::vector<std::string> found;
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    const size_t end = text.find("```", at);
    found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

std::string all_examples() {
  std::string text;
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::source_folder() + "/examples")) {
    if (entry.path().extension() == ".cc") text += read(entry.path());
  }
  return text;
}

TEST(Tutorial, EveryBlockOfCodeIsPartOfAnExample) {
  const std::string examples = all_examples();
  const std::vector<std::string> shown =
      blocks(read(tests::source_folder() + "/docs/tutorial.md"), "cpp");
  EXPECT_GE(shown.size(), 5u);
  for (const std::string& block : shown)
    EXPECT_NE(examples.find(block), std::string::npos) << block;
}

TEST(Tutorial, EveryOutputIsWhatAnExamplePrints) {
  const std::string examples = all_examples();
  for (const std::string& block :
       blocks(read(tests::source_folder() + "/docs/tutorial.md"), "text")) {
    std::istringstream lines(block);
    for (std::string line; std::getline(lines, line);)
      EXPECT_NE(examples.find("// " + line + "\n"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace gangway
