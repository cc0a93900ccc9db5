#include "checkpoint/safetensors_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway {

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_file("open", path_, errno);
  try {
    read_header();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { close(descriptor_); }

void SafetensorsFile::read_header() {
  struct stat status = {};
  int error = fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  if (error != 0) fail_file("read", path_, error);
  const auto bytes = static_cast<uint64_t>(status.st_size);
  std::vector<std::byte> head(std::min(bytes, kLengthBytes));
  read_at(0, head);
  data_begin_ = find_data(head, bytes, path_.string());
  head.resize(data_begin_);
  read_at(0, head);
  header_ = parse_header(head, bytes, path_.string());
  for (const TensorEntry& tensor : header_.tensors) by_name_[tensor.spec.name] = &tensor;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void SafetensorsFile::read(const TensorEntry& tensor, uint64_t offset,
                           std::span<std::byte> to) const {
  GW_ASSERT(offset <= tensor.end - tensor.begin && to.size() <= tensor.end - tensor.begin - offset,
            "bytes of tensor ", tensor.spec.name, " lie in it");
  read_at(data_begin_ + tensor.begin + offset, to);
}

void SafetensorsFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EIO) fail_file("read", path_, errno);
    GW_REQUIRE(count > 0, path_.string(), ": the file is damaged: at byte ", offset, ": ",
               count < 0 ? std::strerror(errno) : "it has been cut short");
    offset += static_cast<uint64_t>(count);
    to = to.subspan(static_cast<size_t>(count));
  }
}

}  // namespace gangway
