// Describes a checkpoint that an executor writes from a shared segment or reads into one: the
// tensors with their places in the segment, and the folder of the files.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/types/type.h"

namespace gangway {

// A whole tensor, in row-major order.
struct StoredTensor {
  std::string name;
  Type type;
  int64_t offset = 0;  // Place in the segment, in bytes.
  bool may_be_missing =
      false;  // For reading only: if the files lack it, it is named and its bytes stay as they are.
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

// Key in a checkpoint's metadata; its value names the program that wrote the checkpoint. No two
// programs have the same value.
inline constexpr char kProgramKey[] = "program_id";

struct CheckpointFiles {
  std::string folder;  // Absolute path of the program's checkpoints (checkpoint_dir.h).
  uint64_t version = 0;
  std::vector<StoredTensor> tensors;
  // For writing only. The `keep` newest checkpoints stay, and so does `known`, the one from which
  // the program would be recovered. If `known` is 0 there is none, and the checkpoints that an
  // earlier program left in the folder are set aside first.
  int keep = 1;
  uint64_t known = 0;
  // For writing only: limit on the bytes of all files in the folders of the owner's programs, which
  // have one parent folder. The files of this checkpoint count too.
  uint64_t owner_bytes_max = UINT64_MAX;
  std::map<std::string, std::string> metadata = {};
};

}  // namespace gangway
