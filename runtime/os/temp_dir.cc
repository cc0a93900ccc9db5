#include "runtime/os/temp_dir.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/paths.h"

namespace gangway {

TempDir::TempDir(const std::string& prefix) {
  std::string name = (temp_folder() / (prefix + "-XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorKind::kUnavailable,
                cat("temporary directory: ", name, ": ", std::strerror(errno)), {},
                "set TMPDIR to a directory with room that you may write to");
  }
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;  // A destructor can't report errors.
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gangway
