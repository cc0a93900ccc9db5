// Writes one safetensors file, tensor by tensor and in any order, without holding it in memory.
//
// The header is known and written first, and tensors' bytes then go straight to their place. The
// file is removed again unless finish() was reached, so that a file that exists is complete. A file
// that exists already is not replaced: its writer is refused (kInvalid).
//
// Threads: one thread at a time.
// Ownership: no bytes are kept.
// Cost: the file is hashed as it is written, 1 GB/s. Tensors that come in another order than that
// of the file are read again for the hash.
// Errors: as durable_file.h; kInvalid for a tensor that the header lacks or bytes that do not fit.
//
// Example:
//   HostTensor w(f32({2, 3}));
//   SafetensorsWriter out("model.safetensors", {{"w", FileDType::kF32, {2, 3}}}, {{"step", "5"}});
//   out.append("w", w.bytes);
//   out.finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/hash.h"

namespace gangway {

class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& specs,
                    const std::map<std::string, std::string>& metadata = {});

  // Tensors in the order in which they lie in the file, which is the fastest order to write them
  // in.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }

  // Appends the next bytes of a tensor, in little-endian row-major order: all of it, or a piece.
  void append(const std::string& name, std::span<const std::byte> bytes);

  // Verifies that every tensor is complete, then waits until the file is on the disk. Returns its
  // hash (file_hashes.h).
  std::string finish();

 private:
  struct Cursor {
    uint64_t next = 0;  // Place in the file.
    uint64_t end = 0;
  };

  std::string hash_of_file() const;

  DurableFile file_;
  Hasher hasher_;  // Hash of all bytes before hashed_.
  uint64_t hashed_ = 0;
  uint64_t bytes_ = 0;  // Size of the file.
  std::vector<TensorEntry> tensors_;
  std::map<std::string, Cursor> cursors_;
};

}  // namespace gangway
