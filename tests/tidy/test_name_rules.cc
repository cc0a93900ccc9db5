// Refuses names of tests that begin as riddles do. A name is found behind the suite's, on the line
// of the macro or on the one below it.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "tests/tidy/riddles.h"
#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

constexpr std::array<std::string_view, 5> kTestMacros = {"TEST(", "TEST_F(", "TEST_P(",
                                                         "TYPED_TEST(", "TYPED_TEST_P("};

bool is_small_letter(char c) { return std::islower(static_cast<unsigned char>(c)); }

// The name of the test that a line of code begins, or empty. `below` is the next line.
std::string test_name(std::string_view code, std::string_view below) {
  code.remove_prefix(std::min(code.find_first_not_of(' '), code.size()));
  for (const std::string_view macro : kTestMacros) {
    if (!code.starts_with(macro)) continue;
    const std::string text = std::string(code) + ' ' + std::string(below);
    const size_t comma = text.find(',');
    const size_t begin = comma == text.npos ? comma : text.find_first_not_of(' ', comma + 1);
    if (begin == text.npos) return {};
    size_t end = begin;
    while (end < text.size() && is_name_part(text[end])) ++end;
    return text.substr(begin, end - begin);
  }
  return {};
}

}  // namespace

void check_test_names(const Tree& tree, Findings& findings) {
  for (const SourceFile& file : tree) {
    for (size_t i = 0; i < file.code.size(); ++i) {
      const std::string_view below =
          i + 1 < file.code.size() ? std::string_view(file.code[i + 1]) : std::string_view();
      const std::string name = test_name(file.code[i], below);
      if (!begins_as_riddle(name, is_small_letter)) continue;
      findings.push_back({"plain-test-name", file.path, i + 1,
                          "test " + name +
                              ": expected a sentence with a subject and a verb, got one that "
                              "begins with Of, What, Who, Whose, Those, By, As or So: say what a "
                              "user or developer sees (docs/glossary.md)"});
    }
  }
}

}  // namespace gangway::tidy
