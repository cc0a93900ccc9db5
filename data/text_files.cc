#include "data/text_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "data/bad_text.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_below(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::recursive_directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    if (entries->is_regular_file(error)) files.push_back(entries->path());
  }
  if (error) fail_text(folder, "cannot list the folder: " + error.message());
  if (files.empty()) fail_text(folder, "the folder holds no files");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TextFiles::TextFiles(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) fail_text(path, "no such file or folder");
  if (error) fail_text(path, "cannot read: " + error.message());
  if (fs::is_directory(status)) {
    for (const fs::path& file : files_below(path)) add(file);
  } else if (fs::is_regular_file(status)) {
    add(path);
  } else {
    fail_text(path, "neither a file nor a folder");
  }
  if (bytes_ == 0) fail_text(path, "the text is empty");
}

void TextFiles::add(const fs::path& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error) fail_text(path, "cannot read the file: " + error.message());
  if (bytes > kBytesMax - bytes_)
    fail_text(path, cat("too long: expected at most ", kBytesMax, " bytes in all"));
  files_.push_back({path, bytes});
  bytes_ += bytes;
}

void TextFiles::rewind() {
  next_ = 0;
  taken_ = 0;
  in_.close();
}

void TextFiles::read(std::span<char> to) {
  while (!to.empty()) {
    GW_ASSERT(next_ < files_.size(), "a text is read to its end");
    const File& file = files_[next_];
    if (taken_ == file.bytes) {
      in_.close();
      ++next_;
      taken_ = 0;
      continue;
    }
    if (!in_.is_open()) in_.open(file.path, std::ios::binary);
    if (!in_) fail_text(file.path, cat("cannot open the file: ", std::strerror(errno)));
    const auto count = static_cast<size_t>(std::min<uint64_t>(to.size(), file.bytes - taken_));
    in_.read(to.data(), static_cast<std::streamsize>(count));
    taken_ += static_cast<uint64_t>(in_.gcount());
    if (in_.gcount() != static_cast<std::streamsize>(count))
      fail_text(file.path,
                cat("cannot read the file: expected ", file.bytes, " bytes, got ", taken_));
    to = to.subspan(count);
  }
}

}  // namespace gangway
