// Sizes. The hard limits of the house style; the soft ones are half of them.
#include <map>
#include <set>

#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

constexpr size_t kHeaderLinesMax = 400;
constexpr size_t kSourceLinesMax = 800;
constexpr size_t kFunctionLinesMax = 70;
constexpr size_t kFolderFilesMax = 25;

std::string too_long(size_t got, size_t max, const char* advice) {
  return "has " + std::to_string(got) + " lines: expected at most " + std::to_string(max) + ": " +
         advice;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_name(text[at - 1])) && (end == text.size() || !is_name(text[end])))
      return true;
  }
  return false;
}

// The part of a declaration that is not inside (...) or <...>.
std::string outer_part(std::string_view head) {
  std::string outer;
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    const char c = head[i];
    if (c == '(' || (c == '<' && depth >= 0)) ++depth;
    if (depth == 0) outer += c;
    if (c == ')' || (c == '>' && i > 0 && head[i - 1] != '-')) {
      depth = depth > 0 ? depth - 1 : 0;
      if (c == ')' && depth == 0) outer += "()";
    }
  }
  return outer;
}

// The kind of scope that a brace opens, guessed from the text before it. The guess is good enough
// for clang-formatted code.
enum class Opens { kScope, kFunction, kOther };
Opens what_opens(std::string_view head) {
  const std::string outer = outer_part(head);
  const bool has_parameters = outer.find('(') != outer.npos;
  for (const char* word : {"namespace", "class", "struct", "union", "enum", "extern"}) {
    if (has_word(outer, word) && !has_parameters) return Opens::kScope;
  }
  if (outer.find('=') != outer.npos && !has_word(outer, "operator")) return Opens::kOther;
  return has_parameters ? Opens::kFunction : Opens::kOther;
}

// Follows braces outside functions; inside one, only counts to its end.
class FunctionSizes {
 public:
  FunctionSizes(const SourceFile& file, Findings& findings) : file_(file), findings_(findings) {}

  void run() {
    for (size_t i = 0; i < file_.code.size(); ++i) {
      if (skips_directive(file_.code[i])) continue;
      for (const char c : file_.code[i]) take(c, i + 1);
      head_ += ' ';
    }
  }

 private:
  bool skips_directive(const std::string& line) {
    const size_t first = line.find_first_not_of(' ');
    const bool directive = in_directive_ || (first != line.npos && line[first] == '#');
    in_directive_ = directive && line.ends_with('\\');
    return directive;
  }

  void take(char c, size_t line) {
    if (c == '{') {
      if (depth_ > 0 || what_opens(head_) != Opens::kScope) {
        if (depth_++ == 0) {
          is_function_ = what_opens(head_) == Opens::kFunction;
          begin_ = head_line_;
        }
      }
      head_.clear();
    } else if (c == '}') {
      if (depth_ > 0 && --depth_ == 0 && is_function_) close(line);
      head_.clear();
    } else if (c == ';' && depth_ == 0) {
      head_.clear();
    } else if (depth_ == 0) {
      if (head_.find_first_not_of(' ') == head_.npos) head_line_ = line;
      head_ += c;
      for (const char* access : {"public:", "protected:", "private:"}) {
        if (head_.ends_with(access)) head_.clear();
      }
    }
  }

  void close(size_t line) {
    const size_t lines = line - begin_ + 1;
    if (lines <= kFunctionLinesMax) return;
    findings_.push_back({"function-size", file_.path, begin_,
                         "function " + too_long(lines, kFunctionLinesMax, "split it")});
  }

  const SourceFile& file_;
  Findings& findings_;
  std::string head_;
  size_t head_line_ = 1;
  size_t begin_ = 1;
  int depth_ = 0;
  bool is_function_ = false;
  bool in_directive_ = false;
};

// "ir/types/type_test.cc" -> "ir/types/type": a file and its neighbours are one.
std::string concept_of(std::string path) {
  path.resize(path.find('.', path.rfind('/') + 1));
  for (const char* tail : {"_test", "_bench", "_fuzz", "_avx2", "_avx512"}) {
    if (path.ends_with(tail)) path.resize(path.size() - std::string_view(tail).size());
  }
  return path;
}

}  // namespace

void check_budgets(const Tree& tree, Findings& findings) {
  std::map<std::string, std::set<std::string>> folders;
  for (const SourceFile& file : tree) {
    if (!file.is_cpp()) continue;
    if (file.path.find('/') != file.path.npos)
      folders[file.path.substr(0, file.path.rfind('/'))].insert(concept_of(file.path));
    const size_t max = file.is_header() ? kHeaderLinesMax : kSourceLinesMax;
    if (file.lines.size() > max)
      findings.push_back({file.is_header() ? "header-size" : "source-size", file.path, 0,
                          too_long(file.lines.size(), max, "one idea a file, split it")});
    FunctionSizes(file, findings).run();
  }
  for (const auto& [folder, concepts] : folders) {
    if (concepts.size() > kFolderFilesMax)
      findings.push_back({"folder-size", folder, 0,
                          "holds " + std::to_string(concepts.size()) + " files: expected at most " +
                              std::to_string(kFolderFilesMax) + " (neighbours count as one)"});
  }
}

}  // namespace gangway::tidy
