// A set of tensors in one or several safetensors files, as Hugging Face lays them out.
//
//   model.safetensors                          all tensors, or:
//   model-00001-of-00002.safetensors           some of them each, and
//   model-00002-of-00002.safetensors
//   model.safetensors.index.json               which file holds which, see tensor_index.h
//
// A folder may say what its files hash to (file_hashes.h): then read() finds damage.
//
// Threads: reading is safe from any thread.
// Ownership: views live as long as the TensorFiles.
// Errors: as safetensors_file.h; kInvalid naming the index, which is not trusted: each tensor must
// be where it says.
//
// Example:
//   TensorFiles files = TensorFiles::open("step-00000577");
//   TensorView w = files.at("layers.0.attn.q");
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_hashes.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_file.h"

namespace gangway {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

struct TensorView {
  const TensorSpec* spec = nullptr;
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;

  uint64_t size() const { return entry->end - entry->begin; }  // In bytes.
  // As many bytes as there is room for, from `offset` on.
  void read(uint64_t offset, std::span<std::byte> to) const { file->read(*entry, offset, to); }
  std::vector<std::byte> read_all() const;
};

class TensorFiles {
 public:
  // A .safetensors file, an index, or a folder that holds one of the two names above.
  static TensorFiles open(const std::filesystem::path& path);

  // By name.
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView& at(const std::string& name) const;
  // Of all files; where they disagree, the first one's.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Whole tensors to these places, of their sizes, by name. Files with a hash are read from their
  // beginning to their end, and what they hold must have it. `go_on` is called before each piece of
  // kPieceBytes, and may throw.
  static constexpr size_t kPieceBytes = size_t{256} << 10;
  using Places = std::map<std::string, std::span<std::byte>, std::less<>>;
  void read(const Places& to, const std::function<void()>& go_on = {}) const;

 private:
  const SafetensorsFile& add_file(const std::filesystem::path& path);
  void add_all(const std::filesystem::path& path);
  void add_indexed(const std::filesystem::path& path);

  std::string name_;
  FileHashes hashes_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// What one file of several will hold.
struct TensorFilePlan {
  std::string name;  // "model-00001-of-00002.safetensors"
  std::vector<TensorSpec> tensors;
};

// Deals whole tensors to `files` files, balanced by bytes; the same on every host. A file may get
// none.
std::vector<TensorFilePlan> plan_tensor_files(const std::vector<TensorSpec>& tensors, int files);

// Writes the index of planned files into their folder; the files are written with
// SafetensorsWriter.
void write_tensor_index(const std::filesystem::path& folder,
                        const std::vector<TensorFilePlan>& plan);

}  // namespace gangway
