// Files that are on the disk when the call returns, and errors of files in words.
//
// Threads: a DurableFile belongs to one thread at a time; the functions are safe anywhere.
// Errors: of files, here and wherever they are named: kInvalid for a path that is wrong or
// forbidden, kOverloaded for a disk, a quota or a file limit that is full, kUnavailable for
// everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace gangway {

// Throws the error of a system call on a path, from errno: "cannot write checkpoints/x: ...".
[[noreturn]] void fail_file(std::string_view action, const std::filesystem::path& path, int number);

// From now on this process gets EFBIG for a file that would grow beyond the limit of its size
// (ulimit -f). By itself the system ends the process with SIGXFSZ, without a word. Nothing changes
// where somebody has said what that signal is to do.
void get_errors_for_files_beyond_the_limit();

// Waits until the names in a folder are on the disk: what was created, renamed or removed in it.
void sync_folder(const std::filesystem::path& folder);

// A new file. Removed again unless finish() was reached.
class DurableFile {
 public:
  // Creates the file; it must not exist.
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;

  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // What was written there.
  void read_at(uint64_t offset, std::span<std::byte> to) const;
  // Waits until the bytes are on the disk. The name is durable only after sync_folder().
  void finish();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// The whole of a small file, in one step; it must not exist.
void write_durably(const std::filesystem::path& path, std::string_view text);
// The same where there may be one: whatever happens meanwhile, the path is the old file or the new
// one, whole. Uses path + ".new".
void replace_durably(const std::filesystem::path& path, std::string_view text);

}  // namespace gangway
