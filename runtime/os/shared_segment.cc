#include "runtime/os/shared_segment.h"

#include <fcntl.h>
#include <kj/io.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/align.h"
#include "runtime/base/error.h"
#include "runtime/base/limit_hint.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

constexpr uint64_t kMagic = 0x67656d7365677761;  // "awgesmeg"
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr size_t kBytesMax = size_t{1} << 46;

struct alignas(64) Header {
  uint64_t magic;
  uint64_t token;
};
static_assert(sizeof(Header) == 64);

Error system_error(ErrorKind kind, const std::string& what) {
  return Error(kind, cat("shared memory: ", what, ": ", std::strerror(errno)), {},
               limit_hint(errno));
}

}  // namespace

SharedSegment SharedSegment::create(size_t bytes) {
  GW_REQUIRE(bytes > 0 && bytes <= kBytesMax, "shared memory: a segment has 1 byte to ",
             format_bytes(kBytesMax), ", got ", bytes);
  kj::AutoCloseFd file(memfd_create("gangway", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) throw system_error(ErrorKind::kOverloaded, "no memory file");
  if (ftruncate(file.get(), static_cast<off_t>(sizeof(Header) + bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0)
    throw system_error(ErrorKind::kOverloaded, cat("no room for ", format_bytes(bytes)));
  SegmentDescriptor descriptor{getpid(), file.get(), bytes, 0};
  if (getrandom(&descriptor.token, sizeof descriptor.token, 0) != sizeof descriptor.token)
    throw system_error(ErrorKind::kUnavailable, "no random token");
  SharedSegment segment(file.get(), descriptor);
  auto* header = reinterpret_cast<Header*>(segment.data_ - sizeof(Header));
  header->magic = kMagic;
  header->token = descriptor.token;
  segment.owned_fd_ = file.release();
  return segment;
}

// Errors go to peers, and name no number of a process or a file: a simulation charges messages by
// their length, and repeats in every process.
SharedSegment SharedSegment::open(const SegmentDescriptor& d) {
  GW_REQUIRE(d.pid > 0 && d.fd >= 0 && d.bytes > 0 && d.bytes <= kBytesMax,
             "shared memory: not a descriptor: expected a process, a file and 1 byte to ",
             format_bytes(kBytesMax), ", got ", d.bytes, " bytes");
  const std::string path = cat("/proc/", d.pid, "/fd/", d.fd);
  // Not blocking, in case the number now is a pipe's.
  const kj::AutoCloseFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    Error error = system_error(ErrorKind::kUnavailable, "none with the process that offers it");
    throw error.set_hint(
        "both must run on one machine, as one user, in one pid namespace (container)");
  }
  struct stat status{};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  GW_REQUIRE(seals >= 0 && (seals & kSeals) == kSeals,
             "shared memory: what is offered is not a sealed segment");
  GW_REQUIRE(fstat(file.get(), &status) == 0 &&
                 static_cast<uint64_t>(status.st_size) == sizeof(Header) + d.bytes,
             "shared memory: what is offered has another size: expected ", d.bytes, " bytes");
  SharedSegment segment(file.get(), d);
  const auto* header = reinterpret_cast<const Header*>(segment.data_ - sizeof(Header));
  GW_REQUIRE(header->magic == kMagic && header->token == d.token,
             "shared memory: what is offered is another segment than the one described");
  return segment;
}

SharedSegment::SharedSegment(int fd, SegmentDescriptor descriptor) : descriptor_(descriptor) {
  map(fd);
}

void SharedSegment::map(int fd) {
  void* memory = mmap(nullptr, sizeof(Header) + size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    throw system_error(ErrorKind::kOverloaded, cat("can't map ", format_bytes(size())));
  data_ = static_cast<std::byte*>(memory) + sizeof(Header);
}

void SharedSegment::drop_pages(int64_t offset, int64_t bytes) const {
  const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  const int64_t first = align_up(offset + static_cast<int64_t>(sizeof(Header)), page);
  const int64_t end = (offset + static_cast<int64_t>(sizeof(Header)) + bytes) / page * page;
  if (end > first)
    madvise(data_ - sizeof(Header) + first, static_cast<size_t>(end - first), MADV_REMOVE);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : descriptor_(other.descriptor_),
      owned_fd_(std::exchange(other.owned_fd_, -1)),
      data_(std::exchange(other.data_, nullptr)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(owned_fd_, other.owned_fd_);
  std::swap(data_, other.data_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_ - sizeof(Header), sizeof(Header) + size());
  if (owned_fd_ >= 0) close(owned_fd_);
}

}  // namespace gangway
