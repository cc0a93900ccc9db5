#include "runtime/base/paths.h"

#include <stdio.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"

namespace gangway {

namespace fs = std::filesystem;

fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  if (!error) return whole;
  throw Error(
      ErrorKind::kUnavailable,
      cat("path \"", path.string(), "\": the current folder is not known: ", error.message()), {},
      "change to a folder that exists, or say the path from the root on");
}

fs::path temp_folder() {
  const std::optional<std::string> said = environment_value("TMPDIR");
  const fs::path folder = absolute_path(said.value_or(P_tmpdir));
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (fs::is_directory(status)) return folder;
  const char* wrong = status.type() == fs::file_type::not_found ? std::strerror(ENOENT)
                      : error                                   ? std::strerror(error.value())
                                                                : "it is no folder";
  throw Error(ErrorKind::kInvalid,
              cat("temporary folder ", folder.string(), said ? " (TMPDIR)" : "", ": ", wrong), {},
              "set TMPDIR to a folder with room that you may write to");
}

}  // namespace gangway
