#include "checkpoint/safetensors_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Empty for an empty file, which cannot be mapped.
std::span<const std::byte> map_file(const std::filesystem::path& path) {
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_file("open", path, errno);
  struct stat status = {};
  int error = fstat(descriptor, &status) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  auto size = static_cast<size_t>(status.st_size);
  void* memory = nullptr;
  if (error == 0 && size > 0) {
    memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  close(descriptor);
  if (error != 0) fail_file("read", path, error);
  return {static_cast<const std::byte*>(memory), size};
}

void unmap(std::span<const std::byte> mapped) {
  if (!mapped.empty()) munmap(const_cast<std::byte*>(mapped.data()), mapped.size());
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : mapped_(map_file(path)) {
  try {
    parsed_ = parse_safetensors(mapped_, path.string());
    for (const TensorEntry& tensor : parsed_.header.tensors) {
      by_name_[tensor.spec.name] = &tensor;
    }
  } catch (...) {
    unmap(mapped_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { unmap(mapped_); }

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace gangway
