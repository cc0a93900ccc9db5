#include "runtime/os/process_identity.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

namespace gangway {
namespace {

// Start time: the 22nd field of /proc/PID/stat, whose second field is a name in parentheses that
// may hold any character. 0 if the system does not say.
uint64_t start_of(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;
  uint64_t ticks = 0;
  fields >> ticks;
  return fields.fail() ? 0 : ticks;
}

}  // namespace

ProcessIdentity identity_of(int64_t pid) {
  if (pid <= 0) return {};
  return {pid, start_of(pid)};
}

HasEnded has_ended(const ProcessIdentity& process) {
  if (process.pid <= 0) return HasEnded::kUnknown;
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0));
  if (fd < 0) return errno == ESRCH ? HasEnded::kYes : HasEnded::kUnknown;
  pollfd ended{.fd = fd, .events = POLLIN, .revents = 0};
  const bool is_over = poll(&ended, 1, 0) == 1;
  close(fd);
  if (is_over) return HasEnded::kYes;
  const uint64_t started = start_of(process.pid);
  const bool is_other = process.started != 0 && started != 0 && started != process.started;
  return is_other ? HasEnded::kYes : HasEnded::kNo;
}

}  // namespace gangway
