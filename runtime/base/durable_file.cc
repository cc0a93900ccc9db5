#include "runtime/base/durable_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/limit_hint.h"
#include "runtime/base/paths.h"

namespace gangway {

void fail_file(std::string_view action, const std::filesystem::path& path, int number) {
  ErrorKind kind = ErrorKind::kUnavailable;
  switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM: kind = ErrorKind::kOverloaded; break;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ENAMETOOLONG:
    case ELOOP:
    case EINVAL:
    case EEXIST: kind = ErrorKind::kInvalid; break;
    default: break;
  }
  throw Error(kind, cat("cannot ", action, " ", path.string(), ": ", std::strerror(number)), {},
              number == EEXIST
                  ? "nothing is written over what is there: remove it, or choose another name"
                  : limit_hint(number));
}

void get_errors_for_files_beyond_the_limit() {
  struct sigaction action{};
  if (sigaction(SIGXFSZ, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
      action.sa_handler != SIG_DFL)
    return;
  // A handler, since programs that this process starts would inherit an ignored signal.
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGXFSZ, &action, nullptr);
}

void sync_folder(const std::filesystem::path& folder) {
  int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_file("open", folder, errno);
  int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  if (error != 0) fail_file("sync", folder, error);
}

std::string file_version(const std::filesystem::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return {};
  // A change of permissions may be what makes a file readable. It leaves the time of the bytes
  // alone, and may come within a tick of the clock of inodes.
  return cat(status.st_ino, " ", status.st_size, " ", status.st_mode, " ", status.st_uid, " ",
             status.st_ctim.tv_sec, ".", status.st_ctim.tv_nsec);
}

std::string read_whole(const std::filesystem::path& path, uint64_t bytes_max) {
  constexpr size_t kChunk = size_t{64} << 10;
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_file("read", path, errno);
  std::string bytes;
  size_t size = 0;
  int error = 0;
  while (size <= bytes_max) {
    bytes.resize(size + kChunk);
    const ssize_t count = read(descriptor, bytes.data() + size, kChunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error = errno;
    if (count <= 0) break;
    size += static_cast<size_t>(count);
  }
  close(descriptor);
  if (error != 0) fail_file("read", path, error);
  GW_REQUIRE(size <= bytes_max, "cannot read ", path.string(),
             ": it is too long: expected at most ", bytes_max, " bytes");
  bytes.resize(size);
  return bytes;
}

DurableFile::DurableFile(std::filesystem::path path, FileAccess access,
                         std::filesystem::path known_as)
    : path_(std::move(path)), known_as_(known_as.empty() ? path_ : std::move(known_as)) {
  const mode_t mode = access == FileAccess::kOwnerOnly ? 0600 : 0666;
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor_ < 0) fail_file("create", known_as_, errno);
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)),
      known_as_(std::move(other.known_as_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

DurableFile::~DurableFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(path_.c_str());
}

void DurableFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    // A file limit in the middle of a write shows as a short count, then as an error.
    if (count <= 0) fail_file("write", known_as_, count < 0 ? errno : ENOSPC);
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void DurableFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_file("read", known_as_, count < 0 ? errno : EIO);
    offset += static_cast<uint64_t>(count);
    to = to.subspan(static_cast<size_t>(count));
  }
}

void DurableFile::finish() {
  if (fsync(descriptor_) != 0) fail_file("sync", known_as_, errno);
  // Some file systems report a failed write only now.
  int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) {
    int error = errno;
    unlink(path_.c_str());
    fail_file("close", known_as_, error);
  }
}

void write_durably(const std::filesystem::path& path, std::string_view bytes) {
  DurableFile file(path);
  file.write_at(0, std::as_bytes(std::span(bytes)));
  file.finish();
}

namespace {

// A name beside `path` that no other writer of it uses, on this machine or another one.
std::filesystem::path unused_name(const std::filesystem::path& path) {
  std::array<unsigned char, 4> random{};
  if (getrandom(random.data(), random.size(), 0) < 0) fail_file("choose a name for", path, errno);
  std::array<char, 2 * random.size() + 1> digits{};
  snprintf(digits.data(), digits.size(), "%02x%02x%02x%02x", random[0], random[1], random[2],
           random[3]);
  return path.string() + "." + digits.data() + ".new";
}

// Writes the bytes beside `path`, calls appear() to give them that name, and returns its result: 0,
// or the number of an error.
template <class Appear>
int write_beside(const std::filesystem::path& path, std::string_view bytes, FileAccess access,
                 const Appear& appear) {
  DurableFile file(unused_name(path), access, path);
  const std::filesystem::path written = file.path();
  file.write_at(0, std::as_bytes(std::span(bytes)));
  file.finish();
  const int error = appear(written.c_str()) == 0 ? 0 : errno;
  unlink(written.c_str());  // No longer there after a rename.
  if (error == 0) sync_folder(absolute_path(path).parent_path());
  return error;
}

}  // namespace

bool create_whole(const std::filesystem::path& path, std::string_view bytes, FileAccess access) {
  const int error = write_beside(path, bytes, access,
                                 [&](const char* written) { return link(written, path.c_str()); });
  if (error != 0 && error != EEXIST) fail_file("create", path, error);
  return error == 0;
}

void replace_whole(const std::filesystem::path& path, std::string_view bytes, FileAccess access) {
  const int error = write_beside(
      path, bytes, access, [&](const char* written) { return rename(written, path.c_str()); });
  if (error != 0) fail_file("replace", path, error);
}

bool is_left_over(std::string_view file_name) {
  constexpr std::string_view kEnd = ".new";
  constexpr size_t kDigits = 8;
  if (!file_name.ends_with(kEnd)) return false;
  file_name.remove_suffix(kEnd.size());
  if (file_name.size() <= kDigits || file_name[file_name.size() - kDigits - 1] != '.') return false;
  return file_name.substr(file_name.size() - kDigits).find_first_not_of("0123456789abcdef") ==
         file_name.npos;
}

}  // namespace gangway
