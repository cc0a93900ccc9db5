// Reads from /proc which processes of a test run, and their parents.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gangway {

// The running children; a child that has ended and was not reaped yet is not among them.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    std::getline(stat, line);
    const size_t end = line.rfind(')');
    if (end == line.npos || end + 4 > line.size()) continue;
    if (line[end + 2] == 'Z') continue;
    if (std::stol(line.substr(end + 4)) == parent) children.push_back(std::stoi(name));
  }
  return children;
}

inline std::string command_line(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool is_executor(pid_t pid, const std::string& name) {
  const std::string line = command_line(pid);
  return line.find("executor") != line.npos && line.find(name) != line.npos;
}

// Limit for a file, which may wait in fsync() for all that earlier tests wrote to a slow disk.
inline constexpr std::chrono::seconds kForFiles{120};

// Calls `wanted` every 2 ms until it returns true, or the limit has passed. Returns its last
// result.
template <class Wanted>
bool eventually(const Wanted& wanted, std::chrono::seconds limit = std::chrono::seconds(10)) {
  const timespec tick{0, 2'000'000};
  const auto until = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < until) {
    if (wanted()) return true;
    nanosleep(&tick, nullptr);
  }
  return wanted();
}

// A process that ended has no command line, reaped or not.
inline bool is_gone(pid_t pid) { return command_line(pid).empty(); }

}  // namespace gangway
