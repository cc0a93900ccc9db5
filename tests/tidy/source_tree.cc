#include "tests/tidy/source_tree.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace gangway::tidy {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The position after the literal that starts at `at`.
size_t skip_literal(std::string_view text, size_t at) {
  if (text[at] == '"' && at > 0 && text[at - 1] == 'R') {
    const size_t open = text.find('(', at);
    if (open == text.npos) return text.size();
    const std::string close = ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"";
    return std::min(text.find(close, open), text.size() - close.size()) + close.size();
  }
  const char quote = text[at++];
  while (at < text.size() && text[at] != quote && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

bool is_digit_separator(std::string_view text, size_t at) {
  return text[at] == '\'' && at > 0 && std::isxdigit(static_cast<unsigned char>(text[at - 1]));
}

std::string blank_comments_and_literals(std::string_view text) {
  std::string code(text);
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text.substr(at, 2) == "//") {
      end = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      end = std::min(text.find("*/", at + 2), text.size() - 2) + 2;
    } else if (text[at] == '"' || (text[at] == '\'' && !is_digit_separator(text, at))) {
      end = skip_literal(text, at);
    } else {
      ++at;
      continue;
    }
    for (; at < end; ++at) {
      if (text[at] != '\n') code[at] = ' ';
    }
  }
  return code;
}

std::vector<std::string> tracked_paths(const std::string& root) {
  std::vector<std::string> paths;
  const std::string command = "git -C '" + root + "' ls-files -z 2>/dev/null";
  if (FILE* pipe = popen(command.c_str(), "r")) {
    std::string path;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) {
      if (c) {
        path += static_cast<char>(c);
      } else {
        paths.push_back(std::exchange(path, {}));
      }
    }
    pclose(pipe);
  }
  return paths;
}

std::vector<std::string> walked_paths(const std::string& root) {
  std::vector<std::string> paths;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string path = entry->path().lexically_relative(root).string();
    if (entry->is_directory() && (path.starts_with("build") || path == ".git")) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      paths.push_back(path);
    }
  }
  return paths;
}

}  // namespace

std::string Finding::text() const {
  return path + (line ? ":" + std::to_string(line) : "") + ": [" + rule + "] " + message;
}

SourceFile source_file(std::string path, std::string_view text) {
  SourceFile file{.path = std::move(path), .lines = split(text), .code = {}};
  file.ends_with_newline = text.empty() || text.back() == '\n';
  if (file.is_cpp()) file.code = split(blank_comments_and_literals(text));
  return file;
}

std::vector<SourceFile> read_tree(const std::string& root) {
  std::vector<std::string> paths = tracked_paths(root);
  if (paths.empty()) paths = walked_paths(root);
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  for (const std::string& path : paths) {
    std::ifstream in(fs::path(root) / path, std::ios::binary);
    if (!in) continue;  // Tracked, but deleted in this work tree.
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (text.find('\0') == text.npos) files.push_back(source_file(path, text));
  }
  return files;
}

}  // namespace gangway::tidy
