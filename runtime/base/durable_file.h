// Files that are read or written whole. The bytes of a write are on the disk when it returns, and
// an operation that fails throws an error that names the file and the system's reason.
//
// Threads: a DurableFile belongs to one thread at a time; the functions are safe anywhere.
// Errors: file operations, here and in other rooms, throw kInvalid for a path that is wrong or
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
// (ulimit -f). The system's default is to end the process with SIGXFSZ, without a message. Does
// nothing if the program has already chosen what that signal does.
void get_errors_for_files_beyond_the_limit();

// Waits until the entries of a folder (files created, renamed or removed in it) are on the disk.
void sync_folder(const std::filesystem::path& folder);

// Reads a file whole, from wherever the system lets it be read. kInvalid for more bytes than this.
std::string read_whole(const std::filesystem::path& path, uint64_t bytes_max);

// A text that is another one after each change of the file, of its permissions or of its owner.
// Empty if there is no file.
std::string file_version(const std::filesystem::path& path);

// The readers of a new file: all whom the umask leaves, or its user alone.
enum class FileAccess : uint8_t { kByUmask, kOwnerOnly };

// A new file. The destructor removes it unless finish() was reached.
class DurableFile {
 public:
  // Creates the file; it must not exist. Errors name `known_as` in place of a path that is given.
  explicit DurableFile(std::filesystem::path path, FileAccess access = FileAccess::kByUmask,
                       std::filesystem::path known_as = {});
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;

  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // Reads back bytes that were written at `offset`.
  void read_at(uint64_t offset, std::span<std::byte> to) const;
  // Waits until the bytes are on the disk. The name is durable only after sync_folder().
  void finish();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_, known_as_;
  int descriptor_ = -1;
};

// Writes a small file in one step; the file must not exist. Others may see a part of it meanwhile,
// and the name is durable only after sync_folder(): for folders that appear as a whole.
void write_durably(const std::filesystem::path& path, std::string_view bytes);

// Others, and a process that starts after a crash at any point, find under the path what was there
// before or all of these bytes. Several threads and processes may write one path at once: one of
// them wins. A crash may leave a file `path`.XXXXXXXX.new (eight hexadecimal digits) behind;
// the state folder is cleared of them (is_left_over()).
//
// create_whole() returns false, and changes nothing, if the path is taken; replace_whole() replaces
// the file that has it.
[[nodiscard]] bool create_whole(const std::filesystem::path& path, std::string_view bytes,
                                FileAccess access = FileAccess::kByUmask);
void replace_whole(const std::filesystem::path& path, std::string_view bytes,
                   FileAccess access = FileAccess::kByUmask);
// Whether a file of this name is one that such a crash has left behind.
bool is_left_over(std::string_view file_name);

}  // namespace gangway
