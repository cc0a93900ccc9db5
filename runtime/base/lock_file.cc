#include "runtime/base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "runtime/base/cat.h"
#include "runtime/base/cut.h"
#include "runtime/base/durable_file.h"

namespace gangway {
namespace {

constexpr size_t kCommandBytesMax = 200, kHolderBytesMax = 1024;

std::string own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  if (!words.empty()) words.pop_back();  // Each word ends with a zero byte.
  std::ranges::replace(words, '\0', ' ');
  return cut(words, kCommandBytesMax);
}

std::string own_description() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return cat("process ", getpid(), " on ", host.data(), " (", own_command(), ")");
}

std::string read_holder(int descriptor) {
  std::array<char, kHolderBytesMax> text{};
  const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
  // The file is empty between the other process's lock and the write of its line.
  if (count <= 0) return "another process";
  return {text.data(), static_cast<size_t>(count)};
}

}  // namespace

LockFile::LockFile(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) fail_file("open", path, errno);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int number = errno;
    if (number == EWOULDBLOCK) holder_ = read_holder(descriptor);
    close(descriptor);
    if (number != EWOULDBLOCK) fail_file("lock", path, number);
    return;
  }
  descriptor_ = descriptor;
  // The line is for people only: the lock holds even if the write fails, as on a full disk.
  const std::string text = own_description();
  [[maybe_unused]] const bool is_written =
      ftruncate(descriptor, 0) == 0 &&
      pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

LockFile::LockFile(LockFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), holder_(std::move(other.holder_)) {}

LockFile::~LockFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace gangway
