// Paths, as the process and its environment have them.
//
// Threads: any; the environment must not change meanwhile.
// Errors: kInvalid and kUnavailable as in durable_file.h, with the path and what to do. None of
// these throws an exception of the standard library.
#pragma once

#include <filesystem>

namespace gangway {

// The path as an absolute one. Relative paths begin in the current folder.
std::filesystem::path absolute_path(const std::filesystem::path& path);

// Folder for temporary files: $TMPDIR or, if that is unset or empty, the system's. The path is
// absolute, and names a folder that exists.
std::filesystem::path temp_folder();

}  // namespace gangway
