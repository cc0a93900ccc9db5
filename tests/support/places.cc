#include "tests/support/places.h"

#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"

namespace gangway::tests {
namespace {

namespace fs = std::filesystem;

constexpr char kCache[] = "CMakeCache.txt";

}  // namespace

std::string build_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = program.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / kCache, error)) return folder.string();
  }
  throw Error(ErrorKind::kInvalid,
              cat(program.string(), ": lies in no build tree: expected a ", kCache, " above it"));
}

std::string cmake_variable(std::string_view name) {
  std::ifstream cache(fs::path(build_folder()) / kCache);
  const std::string begin = cat(name, ":");
  for (std::string line; std::getline(cache, line);) {
    if (line.starts_with(begin)) return line.substr(line.find('=') + 1);
  }
  throw Error(ErrorKind::kInvalid, cat(kCache, " of ", build_folder(), ": has no variable ", name));
}

std::string source_folder() { return cmake_variable("CMAKE_HOME_DIRECTORY"); }

std::string gangway_tool() { return cat(build_folder(), "/tools/gangway"); }
std::string user_kernel() { return cat(build_folder(), "/tests/custom_call/libgw_user_kernel.so"); }

}  // namespace gangway::tests
