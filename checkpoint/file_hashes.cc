#include "checkpoint/file_hashes.h"

#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 32;
constexpr uint64_t kFileBytesMax = 10'000'000;

bool is_plain_name(std::string_view name) {
  return !name.empty() &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

std::string print_file_hashes(const FileHashes& hashes) {
  std::string text;
  for (const auto& [name, hash] : hashes) text += cat(hash, "  ", name, "\n");
  return text;
}

FileHashes parse_file_hashes(std::string_view text, const std::string& subject) {
  FileHashes hashes;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    GW_REQUIRE(end != std::string_view::npos && row.size() > kDigits + 2 &&
                   row.find_first_not_of("0123456789abcdef") == kDigits &&
                   row.substr(kDigits, 2) == "  " && is_plain_name(row.substr(kDigits + 2)),
               subject, ": line ", line, ": expected ", kDigits,
               " hexadecimal digits, two spaces and the name of a file of the same folder");
    const bool is_new = hashes.emplace(row.substr(kDigits + 2), row.substr(0, kDigits)).second;
    GW_REQUIRE(is_new, subject, ": line ", line, ": the file has two hashes");
    text.remove_prefix(end + 1);
  }
  return hashes;
}

void write_file_hashes(const fs::path& folder, const FileHashes& hashes) {
  write_durably(folder / kHashesFile, print_file_hashes(hashes));
}

FileHashes read_file_hashes(const fs::path& folder) {
  const fs::path path = folder / kHashesFile;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  return parse_file_hashes(read_whole(path, kFileBytesMax), path.string());
}

}  // namespace gangway
