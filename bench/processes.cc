#include "bench/processes.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gangway::bench {
namespace {

// Processes and threads may end while they are read: the text is then empty.
std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();  // Unlike its iterators, rdbuf() throws nothing if reading fails.
  return text.str();
}

std::vector<std::filesystem::path> entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code gone;
  for (std::filesystem::directory_iterator at(folder, gone), end; at != end; at.increment(gone))
    found.push_back(at->path());
  return found;
}

struct Stat {
  int64_t parent = 0;
  double cpu_s = 0;
};

// proc(5): "pid (command) state ppid ..."; user and system time are fields 14 and 15.
Stat read_stat(const std::filesystem::path& path) {
  const std::string text = read(path);
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  Stat stat;
  for (int number = 3; fields >> field; ++number) {
    if (number == 4) stat.parent = std::stoll(field);
    if (number == 14 || number == 15)
      stat.cpu_s += std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return stat;
}

// Adds up the threads of a process. proc(5): schedstat begins with the nanoseconds on a core.
void add_effort(const std::filesystem::path& process, Effort& effort) {
  for (const std::filesystem::path& task : entries(process / "task")) {
    double cpu_ns = 0;
    std::ifstream(task / "schedstat") >> cpu_ns;
    effort.cpu_us += cpu_ns * 1e-3;
    const std::string key = "voluntary_ctxt_switches:";
    std::ifstream in(task / "status");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with(key)) effort.waits += std::stod(line.substr(key.size()));
    }
  }
}

// Returns the programs that this process has started.
std::vector<std::filesystem::path> children() {
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& process : entries("/proc")) {
    const std::string pid = process.filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_stat(process / "stat").parent == getpid()) found.push_back(process);
  }
  return found;
}

int64_t peak_bytes(const std::filesystem::path& process) {
  std::ifstream in(process / "status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  }
  return 0;
}

}  // namespace

std::vector<ProcessUse> children_use() {
  std::vector<ProcessUse> uses;
  for (const std::filesystem::path& process : children()) {
    const Stat stat = read_stat(process / "stat");
    ProcessUse& use = uses.emplace_back();
    use.command = read(process / "cmdline");
    std::replace(use.command.begin(), use.command.end(), '\0', ' ');
    use.peak_bytes = peak_bytes(process);
    use.cpu_s = stat.cpu_s;
    use.main_cpu_s = read_stat(process / "task" / process.filename() / "stat").cpu_s;
  }
  return uses;
}

double own_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Effort effort() {
  Effort all;
  add_effort("/proc/self", all);
  for (const std::filesystem::path& process : children()) add_effort(process, all);
  return all;
}

}  // namespace gangway::bench
