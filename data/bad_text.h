// The error of a text that can't be used, in words.
//
// Threads: safe anywhere.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/base/error.h"

namespace gangway {

[[noreturn]] inline void fail_text(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::kInvalid, cat("text: ", path.string(), ": ", what), {},
              "give a text file, or a folder of text files");
}

}  // namespace gangway
