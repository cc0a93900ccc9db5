// A folder of checkpoints in which the last good one is never at risk.
//
//   checkpoints/step-00000500/    one folder for each checkpoint; it gets this name when it is
//   checkpoints/step-00000577/    complete, and never changes afterwards
//   checkpoints/latest            a symbolic link to the newest, replaced by one rename
//   checkpoints/.partial-...      being written; removed on failure, and by the next begin()
//
// Invariants: a folder named step-N is whole and on the disk. `latest` names such a folder, before
// and after a crash at any point but two: after the first checkpoint has its name and before the
// link exists; and after a folder in the link's place was moved away and before the link exists.
// The highest step then counts as the newest. Copies of the folder may lack the link, or have a
// folder in its place (a copy of the checkpoint that it named). Both are read, and the next
// commit() puts a link there again.
//
// Threads: one at a time; one process writes.
// Errors: as durable_file.h. After any failure the earlier checkpoints and `latest` are as they
// were, and the partial one is gone.
//
// Example:
//   CheckpointDir dir("checkpoints");
//   PendingCheckpoint pending = dir.begin(577);
//   write_files_into(pending.folder());
//   pending.commit();
//   dir.prune(3);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace gangway {

// A checkpoint that is being written; removed unless commit() was reached.
class PendingCheckpoint {
 public:
  ~PendingCheckpoint();
  PendingCheckpoint(PendingCheckpoint&& other) noexcept;
  PendingCheckpoint& operator=(PendingCheckpoint&&) = delete;

  // Empty at first. The caller writes its files here, each one synced (DurableFile,
  // SafetensorsWriter).
  const std::filesystem::path& folder() const { return folder_; }

  // Waits until the folder is on the disk, gives it its name and moves `latest` to it. Replaces a
  // checkpoint of the same step. Returns the new path of the folder.
  std::filesystem::path commit();

 private:
  friend class CheckpointDir;
  PendingCheckpoint(std::filesystem::path root, int64_t step);

  std::filesystem::path root_;
  std::filesystem::path folder_;  // Empty after commit().
  int64_t step_;
};

// Returns the bytes of all files below a folder. A file that is removed meanwhile counts as
// nothing.
uint64_t bytes_below(const std::filesystem::path& folder);

class CheckpointDir {
 public:
  // Creates nothing; begin() creates the folder. A folder that is missing has no checkpoints.
  explicit CheckpointDir(std::filesystem::path root) : root_(std::move(root)) {}

  // Creates the folder if it is missing, removes partial folders that an earlier crash left, and
  // creates the folder of a new checkpoint.
  PendingCheckpoint begin(int64_t step);

  // Returns the checkpoint that `latest` names or is; without `latest` that of the highest step;
  // empty if there is no checkpoint yet.
  std::optional<std::filesystem::path> latest() const;
  // In ascending order.
  std::vector<int64_t> steps() const;
  std::filesystem::path folder_of(int64_t step) const;
  // Removes all checkpoints but the `keep` highest steps and the last `keep` steps up to the one
  // that `latest` names, that one included. Never removes that of `needed`. keep >= 1.
  void prune(int keep, std::optional<int64_t> needed = {});

 private:
  std::filesystem::path root_;
};

}  // namespace gangway
