// Rules on headers, and on files and places that documents name.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/tidy/rules.h"

namespace gangway::tidy {

std::string_view included_path(std::string_view line) {
  constexpr std::string_view kInclude = "#include \"";
  if (!line.starts_with(kInclude)) return {};
  line.remove_prefix(kInclude.size());
  return line.substr(0, line.find('"'));
}

namespace {

void check_own_header_first(const SourceFile& file, const std::set<std::string>& paths,
                            Findings& findings) {
  const std::string own = file.path.substr(0, file.path.rfind('.')) + ".h";
  if (!paths.contains(own)) return;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    if (!file.lines[i].starts_with("#include")) continue;
    if (included_path(file.lines[i]) != own)
      findings.push_back(
          {"own-header-first", file.path, i + 1, "expected #include \"" + own + "\""});
    return;
  }
}

std::set<std::string> paths_of(const Tree& tree) {
  std::set<std::string> paths;
  for (const SourceFile& file : tree) paths.insert(file.path);
  return paths;
}

std::set<std::string> files_and_folders_of(const Tree& tree) {
  std::set<std::string> known = paths_of(tree);
  for (const SourceFile& file : tree) {
    std::filesystem::path at = std::filesystem::path(file.path).parent_path();
    for (; !at.empty(); at = at.parent_path()) known.insert(at.string());
  }
  return known;
}

// The texts in `backticks` in a line of Markdown.
std::vector<std::string> quoted_in(std::string_view line) {
  std::vector<std::string> texts;
  for (size_t at = line.find('`'); at != line.npos; at = line.find('`', at)) {
    const size_t end = std::min(line.find('`', at + 1), line.size());
    texts.emplace_back(line.substr(at + 1, end - at - 1));
    at = std::min(end + 1, line.size());
  }
  return texts;
}

// The targets of "[text](target)" in a line of Markdown.
std::vector<std::string> link_targets(std::string_view line) {
  std::vector<std::string> targets;
  for (size_t at = line.find("]("); at != line.npos; at = line.find("](", at + 1)) {
    const size_t end = line.find_first_of(" )", at + 2);
    if (end != line.npos) targets.emplace_back(line.substr(at + 2, end - at - 2));
  }
  return targets;
}

}  // namespace

void check_headers(const Tree& tree, Findings& findings) {
  const std::set<std::string> paths = paths_of(tree);
  for (const SourceFile& file : tree) {
    if (file.has_suffix(".cc")) check_own_header_first(file, paths, findings);
    const char* comment = file.has_suffix(".capnp") ? "#" : "//";
    if ((file.is_header() || file.has_suffix(".inl") || file.has_suffix(".capnp")) &&
        (file.lines.empty() || !file.lines[0].starts_with(comment)))
      findings.push_back(
          {"header-comment", file.path, 1, "expected a comment that says what this file is"});
    if (!file.is_header()) continue;
    if (!std::count(file.lines.begin(), file.lines.end(), "#pragma once"))
      findings.push_back({"pragma-once", file.path, 1, "expected #pragma once"});
  }
}

void check_links(const Tree& tree, Findings& findings) {
  namespace fs = std::filesystem;
  const std::set<std::string> known = files_and_folders_of(tree);
  for (const SourceFile& file : tree) {
    if (!file.has_suffix(".md")) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (std::string target : link_targets(file.lines[i])) {
        target.resize(std::min(target.find('#'), target.size()));
        if (target.empty() || target.find("://") != target.npos) continue;
        const fs::path path = (fs::path(file.path).parent_path() / target).lexically_normal();
        std::string name = path.string();
        if (name.ends_with('/')) name.pop_back();
        if (!known.contains(name))
          findings.push_back(
              {"docs-link", file.path, i + 1, "links to " + name + ": no such file"});
      }
    }
  }
}

void check_places(const Tree& tree, Findings& findings) {
  const std::set<std::string> known = files_and_folders_of(tree);
  for (const SourceFile& file : tree) {
    if (file.path != "docs/architecture.md") continue;
    bool in_table = false;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      if (line.starts_with("## ")) in_table = line == "## Where things go";
      if (!in_table || !line.starts_with("|")) continue;
      for (std::string path : quoted_in(line)) {
        if (path.ends_with('/')) path.pop_back();
        if (!known.contains(path))
          findings.push_back(
              {"docs-place", file.path, i + 1, "names " + path + ": no such file or folder"});
      }
    }
  }
}

}  // namespace gangway::tidy
