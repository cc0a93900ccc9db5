// Rules on the folders of files, and on the rooms that they may include.
#include <algorithm>
#include <set>

#include "tests/tidy/rooms.h"
#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

bool is_test(const SourceFile& file) {
  return file.has_suffix("_test.cc") || file.has_suffix("_bench.cc") || file.has_suffix("_fuzz.cc");
}

void check_include(const SourceFile& file, size_t index, Findings& findings) {
  const std::string_view path = included_path(file.lines[index]);
  const Room* from = room_of(file.path);
  if (path.empty() || !from) return;
  const Room* to = room_of(path);
  if (to && (from->may(to->folder) || (is_test(file) && (test_may_include(*from, *to) ||
                                                         path.starts_with("tests/support/") ||
                                                         path.starts_with("tests/interpret/")))))
    return;
  const std::string name(path);
  findings.push_back({"include-direction", file.path, index + 1,
                      to ? "includes " + name + ": " + std::string(from->folder) +
                               " must not depend on " + std::string(to->folder)
                         : "includes " + name + ": expected the path, from the root of the tree, " +
                               "of a file in a room (tests/tidy/rooms.cc)"});
}

// The public headers: gangway.h, and all headers that it includes, directly or through others.
std::set<std::string_view> public_headers(const Tree& tree) {
  std::set<std::string_view> found;
  std::vector<std::string_view> next = {"gangway.h"};
  while (!next.empty()) {
    const std::string_view path = next.back();
    next.pop_back();
    const auto file = std::ranges::find(tree, path, &SourceFile::path);
    if (file == tree.end() || !found.insert(path).second) continue;
    for (const std::string& line : file->lines) {
      if (const std::string_view included = included_path(line); !included.empty())
        next.push_back(included);
    }
  }
  return found;
}

// Programs include public headers only, like a user's.
void check_programs(const Tree& tree, Findings& findings) {
  const std::set<std::string_view> open = public_headers(tree);
  if (open.empty()) return;
  for (const SourceFile& file : tree) {
    if (!file.is_cpp() || is_test(file) || !file.path.starts_with("programs/")) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string_view path = included_path(file.lines[i]);
      if (path.empty() || path.starts_with("programs/") || open.contains(path)) continue;
      findings.push_back({"public-headers", file.path, i + 1,
                          "includes " + std::string(path) + ", which gangway.h does not"});
    }
  }
}

// Code must lie in a room. Files that build or describe it may also lie in the folders above.
bool lies_in_a_room(const SourceFile& file) {
  static const std::set<std::string_view> kTopFiles = {
      "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", ".gitignore",
      ".clang-format",  ".clang-tidy",       "check",   "quickstart"};
  if (room_of(file.path)) return true;
  if (file.is_cpp() || file.has_suffix(".capnp")) return false;
  const std::string top = file.path.substr(0, file.path.find('/'));
  return kTopFiles.contains(file.path) || top == "docs" || top == ".ci" ||
         std::ranges::any_of(rooms(),
                             [&](const Room& room) { return room.folder.starts_with(top + "/"); });
}

}  // namespace

void check_rooms(const Tree& tree, Findings& findings) {
  for (const SourceFile& file : tree) {
    if (!lies_in_a_room(file))
      findings.push_back({"outside-rooms", file.path, 0, "lies in no room of tests/tidy/rooms.cc"});
    if (!file.is_cpp()) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) check_include(file, i, findings);
  }
  check_programs(tree, findings);
}

}  // namespace gangway::tidy
