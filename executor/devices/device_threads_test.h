// The other threads of a test's process: of devices, and of pools.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace gangway::tests {

inline std::vector<std::filesystem::path> other_threads() {
  std::vector<std::filesystem::path> tasks;
  std::error_code gone;
  for (std::filesystem::directory_iterator task("/proc/self/task", gone), end; task != end;
       task.increment(gone)) {
    if (task->path().filename() != std::to_string(gettid())) tasks.push_back(task->path());
  }
  return tasks;
}

// A thread that has ended meanwhile sleeps too.
inline bool is_asleep(const std::filesystem::path& task) {
  std::ifstream stat(task / "stat");
  std::string line;
  if (!std::getline(stat, line)) return true;
  const size_t name_end = line.rfind(')');  // "17 (name) S ..."; a name may have anything in it.
  return line.compare(name_end, 3, ") S") == 0;
}

// Returns once every thread but the caller's sleeps: each has nothing to do until somebody wakes
// it. In a process where nothing is under way and no timer is due they go on sleeping.
inline void wait_until_others_sleep() {
  while (!std::ranges::all_of(other_threads(), is_asleep)) std::this_thread::yield();
}

// The number of times that threads other than the caller's have gone to sleep since they began.
// Where it is unchanged, none of them has done anything meanwhile.
inline int64_t sleeps_of_others() {
  const std::string key = "voluntary_ctxt_switches:";
  int64_t sum = 0;
  for (const auto& task : other_threads()) {
    std::ifstream status(task / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(key)) sum += std::stoll(line.substr(key.size()));
    }
  }
  return sum;
}

}  // namespace gangway::tests
