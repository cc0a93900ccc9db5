// Reads a small file whole, up to a limit. It is used for the texts that lie beside tensors.
//
// Threads: safe anywhere.
// Errors: as durable_file.h; kInvalid for a larger file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gangway {

std::string read_small_file(const std::filesystem::path& path, uint64_t bytes_max);

}  // namespace gangway
