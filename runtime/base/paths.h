// Paths, as the process and its environment have them.
//
// Threads: any; the environment must not change meanwhile.
// Errors: kInvalid and kUnavailable as durable_file.h, with the path and what to do. None of these
// throws an exception of the standard library.
#pragma once

#include <filesystem>

namespace gangway {

// The same path from the root on; relative ones begin in the current folder.
std::filesystem::path absolute_path(const std::filesystem::path& path);

// The folder for files that nobody keeps: $TMPDIR or, where that is not set or empty, the
// system's. From the root on; it is there, and a folder.
std::filesystem::path temp_folder();

}  // namespace gangway
