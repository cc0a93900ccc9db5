// Rules on what stands where: headers, rooms and the links between them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

struct Room {
  std::string_view folder;
  std::vector<std::string_view> may_include;  // Itself is understood; "*" is everything.
};

// The dependencies of docs/architecture.md, lowest room first. The most specific folder counts.
const std::vector<Room>& rooms() {
  static const std::vector<Room> kRooms = {
      {"runtime/base", {}},
      {"runtime", {"runtime/base"}},
      {"ir", {"runtime/base"}},
      {"protocol", {"runtime/base", "runtime", "ir"}},
      {"executor/kernels", {"runtime/base", "runtime", "ir"}},
      {"data", {"runtime/base"}},
      {"executor",
       {"runtime/base", "runtime", "ir", "protocol", "executor/kernels", "data"}},
      {"controller", {"runtime/base", "runtime", "ir", "protocol"}},
      {"client", {"runtime/base", "runtime", "ir", "protocol"}},
      {"client/local",  // Starts clusters in this process or as children.
       {"runtime/base", "runtime", "ir", "protocol", "client", "controller", "executor"}},
      {"gangway.h", {"runtime/base", "runtime", "ir", "client", "data"}},
      {"programs", {"gangway.h", "runtime/base", "ir", "client", "data"}},
      {"examples", {"gangway.h", "programs"}},
      {"tools", {"*"}},
      {"bench", {"*"}},
      {"tests", {"*"}},
  };
  return kRooms;
}

bool lies_in(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

const Room* room_of(std::string_view path) {
  const Room* best = nullptr;
  for (const Room& room : rooms()) {
    if (lies_in(path, room.folder) && (!best || room.folder.size() > best->folder.size()))
      best = &room;
  }
  return best;
}

bool is_test(const SourceFile& file) {
  return file.has_suffix("_test.cc") || file.has_suffix("_bench.cc") || file.has_suffix("_fuzz.cc");
}

// The path of `#include "path"`, or empty.
std::string_view included_path(std::string_view line) {
  constexpr std::string_view kInclude = "#include \"";
  if (!line.starts_with(kInclude)) return {};
  line.remove_prefix(kInclude.size());
  return line.substr(0, line.find('"'));
}

void check_include(const SourceFile& file, size_t index, Findings& findings) {
  const std::string_view path = included_path(file.lines[index]);
  const Room* from = room_of(file.path);
  if (path.empty() || !from) return;
  const Room* to = room_of(path);
  const auto& may = from->may_include;
  const bool allowed = to && (to == from || std::count(may.begin(), may.end(), "*") ||
                              std::count(may.begin(), may.end(), to->folder) ||
                              (is_test(file) && lies_in(path, "tests/support")));
  if (allowed) return;
  const std::string name(path);
  findings.push_back({"include-direction", file.path, index + 1,
                      to ? "includes " + name + ": " + std::string(from->folder) +
                               " must not depend on " + std::string(to->folder)
                         : "includes " + name + ": expected a path from the root of the tree"});
}

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
    if ((file.is_header() || file.has_suffix(".capnp")) &&
        (file.lines.empty() || !file.lines[0].starts_with(comment)))
      findings.push_back(
          {"header-comment", file.path, 1, "expected a comment that says what this file is"});
    if (!file.is_header()) continue;
    if (!std::count(file.lines.begin(), file.lines.end(), "#pragma once"))
      findings.push_back({"pragma-once", file.path, 1, "expected #pragma once"});
  }
}

void check_rooms(const Tree& tree, Findings& findings) {
  static const std::set<std::string_view> kTopFiles = {
      "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", ".gitignore",
      ".clang-format",  ".clang-tidy",       "check",   "quickstart"};
  for (const SourceFile& file : tree) {
    if (!room_of(file.path) && !kTopFiles.contains(file.path) && !lies_in(file.path, "cmake") &&
        !lies_in(file.path, "docs") && !lies_in(file.path, ".ci"))
      findings.push_back({"outside-rooms", file.path, 0, "lies in no room"});
    if (!file.is_cpp()) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) check_include(file, i, findings);
  }
}

void check_links(const Tree& tree, Findings& findings) {
  namespace fs = std::filesystem;
  std::set<std::string> known = paths_of(tree);
  for (const SourceFile& file : tree) {
    for (fs::path at = fs::path(file.path).parent_path(); !at.empty(); at = at.parent_path())
      known.insert(at.string());
  }
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

}  // namespace gangway::tidy
