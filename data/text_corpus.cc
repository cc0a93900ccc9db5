#include "data/text_corpus.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeldoutParts = 20;  // One part in twenty is held out.

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kInvalid, cat("text: ", path.string(), ": ", what), {},
              "give a text file, or a folder of text files");
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::recursive_directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    if (entries->is_regular_file(error)) files.push_back(entries->path());
  }
  if (error) fail(folder, "cannot list the folder: " + error.message());
  if (files.empty()) fail(folder, "the folder holds no files");
  std::sort(files.begin(), files.end());
  return files;
}

void append_file(const fs::path& path, std::string& bytes) {
  std::error_code error;
  uint64_t size = fs::file_size(path, error);
  if (error) fail(path, "cannot read the file: " + error.message());
  if (size > TextCorpus::kBytesMax - bytes.size()) {
    fail(path, cat("too long: expected at most ", TextCorpus::kBytesMax, " bytes in all"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path, cat("cannot open the file: ", std::strerror(errno)));
  size_t before = bytes.size();
  bytes.resize(before + size);
  in.read(bytes.data() + before, static_cast<std::streamsize>(size));
  if (in.gcount() != static_cast<std::streamsize>(size)) {
    fail(path, cat("cannot read the file: expected ", size, " bytes, got ", in.gcount()));
  }
}

}  // namespace

TextCorpus::TextCorpus(std::string name, std::string bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  if (bytes_.empty()) fail(name_, "the text is empty");
}

TextCorpus TextCorpus::load(const fs::path& path) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) fail(path, "no such file or folder");
  if (error) fail(path, "cannot read: " + error.message());
  std::string bytes;
  if (fs::is_directory(status)) {
    for (const fs::path& file : files_below(path)) append_file(file, bytes);
  } else if (fs::is_regular_file(status)) {
    append_file(path, bytes);
  } else {
    fail(path, "neither a file nor a folder");
  }
  return TextCorpus(path.string(), std::move(bytes));
}

std::string_view TextCorpus::train() const {
  return std::string_view(bytes_).substr(0, bytes_.size() - bytes_.size() / kHeldoutParts);
}

std::string_view TextCorpus::heldout() const {
  return std::string_view(bytes_).substr(train().size());
}

void TextCorpus::require_windows(size_t seq) const {
  if (heldout().size() < seq || train().size() < seq) {
    fail(name_,
         cat("the text is too short: expected at least ", seq * kHeldoutParts,
             " bytes, so that the last 5 % hold a window of ", seq, ", got ", bytes_.size()));
  }
}

}  // namespace gangway
