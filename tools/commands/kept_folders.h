// Checkpoints that clusters have kept (controller/recovery/checkpoints.h): a folder for each
// program below one for each owner.
//
//   FOLDER/ann/train/step-00000500      of the program "train" of ann
//   FOLDER/ann/train~1/step-00000120    of an earlier one of that name
//
// Threads: one. Errors: as runtime/base/durable_file.h, with the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/status.h"

namespace gangway::tool {

struct KeptFolder {
  std::filesystem::path path;
  std::string owner, program;  // As the folders are called.
  std::vector<int64_t> steps;  // Ascending.
  uint64_t bytes = 0;
};

// Those below a folder, by owner and program.
std::vector<KeptFolder> kept_folders(const std::filesystem::path& folder);
// The one at this path, also what is left of one that was removed in part. kInvalid where it has no
// checkpoint that can be read and that a cluster has kept.
KeptFolder kept_folder(const std::filesystem::path& path);

// Whether one of these programs writes there. Nothing where that can't be told: one of the owner
// has no name here, as a controller tells names of other owners to nobody but who runs it.
std::optional<bool> is_in_use(const std::vector<ProgramStatus>& programs, const KeptFolder& folder);

// The whole folder of a program.
void remove_kept_folder(const KeptFolder& folder);

}  // namespace gangway::tool
