#include "tests/examples_in_headers/extract.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <set>

#include "runtime/base/error.h"

namespace gangway::examples {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndent = "   ";
const std::vector<std::string> kPublicFolders = {"programs", "ir/build", "runtime/base"};
const std::vector<std::string> kFolders = {"runtime",    "ir",       "data",   "protocol",
                                           "controller", "executor", "client", "programs",
                                           "tools",      "bench",    "tests"};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

// The text behind "//" on a line that is a comment alone.
std::optional<std::string> comment_of(const std::string& line) {
  const size_t at = line.find_first_not_of(' ');
  if (at == std::string::npos || line.compare(at, 2, "//") != 0) return std::nullopt;
  return line.substr(at + 2);
}

// Calls visit(first, code, marked) for every indented block of comments; `first` counts from 0.
template <class Visit>
void each_block(std::string_view header, const Visit& visit) {
  static const std::regex kMark(R"( Example( \(.*\))?:)");
  const std::vector<std::string> lines = lines_of(header);
  std::string before;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::optional<std::string> comment = comment_of(lines[i]);
    if (!comment || !comment->starts_with(kIndent)) {
      before = comment.value_or("");
      continue;
    }
    std::vector<std::string> code;
    for (size_t at = i; at < lines.size(); ++at) {
      const std::optional<std::string> next = comment_of(lines[at]);
      if (!next || !next->starts_with(kIndent)) break;
      code.push_back(next->substr(kIndent.size()));
    }
    visit(i, code, std::regex_match(before, kMark));
    i += code.size() - 1;
    before.clear();
  }
}

void add_headers_below(const fs::path& root, const std::string& folder,
                       std::set<std::string>& headers) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
    if (entry.path().extension() == ".h") headers.insert(fs::relative(entry.path(), root).string());
  }
}

void add_includes(const fs::path& root, const std::string& header, std::set<std::string>& headers) {
  static const std::regex kInclude("#include \"([^\"]+)\"");
  if (!headers.insert(header).second) return;
  for (const std::string& line : lines_of(read_file(root / header))) {
    std::smatch match;
    if (std::regex_match(line, match, kInclude) && fs::exists(root / match[1].str()))
      add_includes(root, match[1], headers);
  }
}

}  // namespace

bool Example::defines_function() const {
  static const std::regex kFunction(R"(\w[\w:<>,&* ]* \**\w+\(.*\) \{)");
  static const std::regex kStatement(R"((for|if|while|switch|return)\b.*)");
  return std::regex_match(code.front(), kFunction) && !std::regex_match(code.front(), kStatement);
}

std::vector<Example> examples_in(const std::string& path, std::string_view header) {
  std::vector<Example> examples;
  each_block(header, [&](size_t first, const std::vector<std::string>& code, bool marked) {
    if (marked) examples.push_back({path, static_cast<int>(first) + 1, code});
  });
  return examples;
}

std::vector<int> unmarked_code(std::string_view header) {
  static const std::regex kStatement(R"([^ ].*;( +//.*)?)");
  std::vector<int> found;
  each_block(header, [&](size_t first, const std::vector<std::string>& code, bool marked) {
    if (marked) return;
    for (size_t i = 0; i < code.size(); ++i) {
      if (std::regex_match(code[i], kStatement)) found.push_back(static_cast<int>(first + i) + 1);
    }
  });
  return found;
}

std::vector<std::string> public_headers(const fs::path& root) {
  std::set<std::string> headers;
  add_includes(root, "gangway.h", headers);
  for (const std::string& folder : kPublicFolders) add_headers_below(root, folder, headers);
  return {headers.begin(), headers.end()};
}

std::vector<std::string> all_headers(const fs::path& root) {
  std::set<std::string> headers;
  for (const std::string& folder : kFolders) add_headers_below(root, folder, headers);
  return {headers.begin(), headers.end()};
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  GW_REQUIRE(in.is_open(), "examples: cannot read ", path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string to_source(const std::vector<Example>& examples,
                      const std::vector<std::string>& headers) {
  std::string text = "#include \"tests/examples_in_headers/context.h\"\n";
  for (const std::string& header : headers) text += cat("#include \"", header, "\"\n");
  text += "namespace gangway {\nusing namespace example_context;\n";
  for (size_t i = 0; i < examples.size(); ++i) {
    const Example& example = examples[i];
    const char* opening = example.defines_function() ? "namespace example_" : "void example_";
    text += cat(opening, i, example.defines_function() ? " {\n" : "() {\n");
    text += cat("#line ", example.line, " \"", example.path, "\"\n");
    for (const std::string& line : example.code) text += cat(line, "\n");
    text += "}\n";
  }
  return text + "}  // namespace gangway\n";
}

}  // namespace gangway::examples
