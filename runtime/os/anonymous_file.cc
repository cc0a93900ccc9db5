#include "runtime/os/anonymous_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/limit_hint.h"

namespace gangway {

AnonymousFile::AnonymousFile(const std::string& name)
    : fd_(memfd_create(name.c_str(), MFD_CLOEXEC)) {
  if (fd_ < 0) {
    throw Error(ErrorKind::kOverloaded, cat("anonymous file ", name, ": ", std::strerror(errno)),
                {}, limit_hint(errno));
  }
}

AnonymousFile::AnonymousFile(AnonymousFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

AnonymousFile& AnonymousFile::operator=(AnonymousFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

AnonymousFile::~AnonymousFile() {
  if (fd_ >= 0) close(fd_);
}

std::string AnonymousFile::path() const { return cat("/proc/", getpid(), "/fd/", fd_); }

std::string AnonymousFile::text() const {
  std::string text;
  char part[16 << 10];
  ssize_t n;
  while ((n = pread(fd_, part, sizeof part, static_cast<off_t>(text.size()))) > 0) {
    text.append(part, static_cast<size_t>(n));
  }
  return text;
}

}  // namespace gangway
