#include "runtime/os/trusted_files.h"

#include <algorithm>
#include <system_error>

#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

namespace gangway {
namespace fs = std::filesystem;

TrustedFiles::TrustedFiles(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    GW_REQUIRE(!error && fs::is_directory(real, error), "trusted folder ", folder.string(), ": ",
               error ? error.message() : "it is no folder");
    folders_.push_back(real);
    add_libraries(real);
  }
}

void TrustedFiles::add_libraries(const fs::path& folder) {
  std::error_code error;
  fs::recursive_directory_iterator files(folder, error);
  for (; !error && files != fs::recursive_directory_iterator(); files.increment(error)) {
    const fs::path& path = files->path();
    std::error_code unreadable;
    if (path.extension() != ".so" || !files->is_regular_file(unreadable)) continue;
    const auto who = [&] { return cat("trusted folder ", folder.string(), ": "); };
    std::string bytes;
    try {
      bytes = read_whole(path, kLibraryBytesMax);
    } catch (const Error& unread) {
      throw Error(ErrorKind::kInvalid, cat(who(), unread.message()), unread.where(), unread.hint());
    }
    libraries_.emplace(content_hash(bytes), path);
    GW_REQUIRE(libraries_.size() <= kLibrariesMax, who(), "expected at most ", kLibrariesMax,
               " libraries in all of them");
  }
  GW_REQUIRE(!error, "trusted folder ", folder.string(), ": ", error.message());
}

std::optional<std::string> TrustedFiles::library(const std::string& hash) const {
  const auto found = libraries_.find(hash);
  if (found == libraries_.end()) return std::nullopt;
  try {
    std::string bytes = read_whole(found->second, kLibraryBytesMax);
    if (content_hash(bytes) == hash) return bytes;
  } catch (const Error&) {  // It was there when this process began, and is gone.
  }
  return std::nullopt;
}

bool TrustedFiles::holds(const fs::path& path) const {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return !error && std::any_of(folders_.begin(), folders_.end(), [&](const fs::path& folder) {
    return std::mismatch(folder.begin(), folder.end(), real.begin(), real.end()).first ==
           folder.end();
  });
}

std::string TrustedFiles::folders_text() const {
  std::string text;
  for (const fs::path& folder : folders_) text += cat(text.empty() ? "" : ", ", folder.string());
  return text.empty() ? "none" : text;
}

}  // namespace gangway
