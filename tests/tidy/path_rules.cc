// [path-error]: exceptions of std::filesystem say "filesystem error", which does not help a user.
// Code must call it with an error code, and throw an Error with name, path and hint.
#include <array>
#include <cctype>

#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

// Functions that throw if they get no error code.
constexpr std::array kCalls = {"absolute",
                               "canonical",
                               "copy",
                               "copy_file",
                               "copy_symlink",
                               "create_directories",
                               "create_directory",
                               "create_directory_symlink",
                               "create_hard_link",
                               "create_symlink",
                               "current_path",
                               "directory_iterator",
                               "equivalent",
                               "exists",
                               "file_size",
                               "is_directory",
                               "is_empty",
                               "is_regular_file",
                               "is_symlink",
                               "last_write_time",
                               "permissions",
                               "proximate",
                               "read_symlink",
                               "recursive_directory_iterator",
                               "relative",
                               "remove",
                               "remove_all",
                               "rename",
                               "resize_file",
                               "space",
                               "status",
                               "symlink_status",
                               "temp_directory_path",
                               "weakly_canonical"};

struct Code {
  std::string text;  // All lines.
  size_t line_at(size_t at) const {
    size_t line = 1;
    for (size_t i = 0; i < at; ++i) line += text[i] == '\n';
    return line;
  }
};

// The last argument of the call whose parenthesis opens at `open`, without spaces.
std::string last_argument(std::string_view text, size_t open) {
  std::string last;
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (depth == 0) return last;
    if (depth == 1 && c == ',') {
      last.clear();
    } else if (!std::isspace(static_cast<unsigned char>(c)) && at != open) {
      last += c;
    }
  }
  return last;
}

// True if the argument is an error code, or the status that another call has given.
bool throws_nothing(std::string_view last) {
  for (const char* name : {"error", "ignored", "none", "gone", "unread", "status"}) {
    if (last.find(name) != last.npos) return true;
  }
  return false;
}

void check_named_calls(const SourceFile& file, const Code& code, Findings& findings) {
  const std::string& text = code.text;
  for (const char* call : kCalls) {
    const std::string wanted = std::string("::") + call;
    for (size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) {
      const bool is_standard = (at >= 2 && text.compare(at - 2, 2, "fs") == 0) ||
                               (at >= 10 && text.compare(at - 10, 10, "filesystem") == 0);
      size_t open = at + wanted.size();
      if (!is_standard || (open < text.size() && is_name_part(text[open]))) continue;
      // A variable of that type: "directory_iterator entries(folder, error)".
      while (open < text.size() && (is_name_part(text[open]) || text[open] == ' ')) ++open;
      if (open >= text.size() || text[open] != '(') continue;
      if (text.compare(open, 2, "()") == 0 && std::string_view(call).ends_with("iterator"))
        continue;  // The end iterator.
      if (!throws_nothing(last_argument(text, open)))
        findings.push_back({"path-error", file.path, code.line_at(at),
                            std::string(call) + " throws an exception of the standard library: "
                                                "give it an error code"});
    }
  }
}

void check_loops(const SourceFile& file, const Code& code, Findings& findings) {
  for (size_t i = 0; i < file.code.size(); ++i) {
    const std::string& line = file.code[i];
    const size_t colon = line.find(" : ");
    if (line.find("for (") != line.npos && colon != line.npos &&
        line.find("directory_iterator", colon) != line.npos)
      findings.push_back({"path-error", file.path, i + 1,
                          "the next step of this loop throws: use increment() with an error code"});
  }
  for (const char* call : {"->is_regular_file()", "->is_directory()", "->file_size()",
                           "entry.is_regular_file()", "entry.is_directory()"}) {
    for (size_t at = code.text.find(call); at != code.text.npos; at = code.text.find(call, at + 1))
      findings.push_back({"path-error", file.path, code.line_at(at),
                          std::string(call) + " throws: give it an error code"});
  }
}

}  // namespace

void check_paths(const Tree& tree, Findings& findings) {
  for (const SourceFile& file : tree) {
    const bool is_test = file.path.starts_with("tests/") || file.path.starts_with("bench/") ||
                         file.has_suffix("_test.cc") || file.has_suffix("_bench.cc") ||
                         file.has_suffix("_fuzz.cc");
    if (!file.is_cpp() || is_test) continue;
    Code code;
    for (const std::string& line : file.code) code.text += line + "\n";
    if (code.text.find("fs::") == code.text.npos &&
        code.text.find("filesystem::") == code.text.npos)
      continue;
    check_named_calls(file, code, findings);
    check_loops(file, code, findings);
  }
}

}  // namespace gangway::tidy
