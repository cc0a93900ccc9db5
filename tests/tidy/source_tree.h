// The files of the repository as text, for rules that read them.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace gangway::tidy {

// Whether the character may stand in a C++ name.
inline bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

struct SourceFile {
  std::string path;                // Path from the root of the tree: "ir/types/type.h".
  std::vector<std::string> lines;  // Without line ends.
  std::vector<std::string> code;   // C++ only: the same lines, comments and literals blanked out.
  bool ends_with_newline = true;

  bool has_suffix(std::string_view suffix) const { return path.ends_with(suffix); }
  bool is_header() const { return has_suffix(".h"); }
  bool is_cpp() const {
    return is_header() || has_suffix(".cc") || has_suffix(".cu") || has_suffix(".inl");
  }
};

struct Finding {
  std::string rule;
  std::string path;
  size_t line = 0;  // 0: the file as a whole.
  std::string message;

  std::string text() const;  // "ir/types/type.h:12: [line-length] ..."
};

SourceFile source_file(std::string path, std::string_view text);

// Every file that git tracks under `root`, or, where there is no git, every file outside build
// folders. Files that are not text are left out.
std::vector<SourceFile> read_tree(const std::string& root);

}  // namespace gangway::tidy
