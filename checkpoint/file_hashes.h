// The hashes of a checkpoint's files, in a file beside them, so that damage shows before anything
// is restored. `b2sum --check b2sums.txt` reads it too.
//
//   b2sums.txt    8d4f...e1  model.safetensors      a line for each file: its BLAKE2b of 16 bytes
//
// Checkpoints of earlier releases and those of other tools have no such file, and are not verified.
//
// Threads: values and pure functions; safe anywhere.
// Errors: kInvalid, naming the file, for text that print_file_hashes() would not have printed; as
// durable_file.h for the disk.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace gangway {

inline constexpr const char* kHashesFile = "b2sums.txt";

// Each file's to_string(Hash128), by file name.
using FileHashes = std::map<std::string, std::string>;

std::string print_file_hashes(const FileHashes& hashes);
FileHashes parse_file_hashes(std::string_view text, const std::string& subject);

void write_file_hashes(const std::filesystem::path& folder, const FileHashes& hashes);
// Empty if the folder has no such file.
FileHashes read_file_hashes(const std::filesystem::path& folder);

}  // namespace gangway
