#include "checkpoint/small_file.h"

#include <fstream>
#include <iterator>
#include <system_error>

#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway {

std::string read_small_file(const std::filesystem::path& path, uint64_t bytes_max) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) fail_file("read", path, error.value());
  GW_REQUIRE(size <= bytes_max, path.string(), ": its ", size, " bytes are above the limit of ",
             bytes_max);
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  GW_REQUIRE(in.good() || in.eof(), path.string(), ": cannot be read");
  return text;
}

}  // namespace gangway
