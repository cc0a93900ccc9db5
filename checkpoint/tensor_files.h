// A set of tensors in one or several safetensors files, as Hugging Face lays them out.
//
//   model.safetensors                          all tensors, or:
//   model-00001-of-00002.safetensors           some of the tensors each, and
//   model-00002-of-00002.safetensors
//   model.safetensors.index.json               index of the tensors' files, see tensor_index.h
//
// A folder may have the hashes of its files (file_hashes.h): read() then finds damage.
//
// Threads: reading is safe from any thread.
// Ownership: views live as long as the TensorFiles.
// Errors: as safetensors_file.h; kInvalid naming the index, which is not trusted: each tensor must
// be in the file that it names.
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
  // Fills `to` with bytes of the tensor, from its byte `offset` on.
  void read(uint64_t offset, std::span<std::byte> to) const { file->read(*entry, offset, to); }
  std::vector<std::byte> read_all() const;
};

class TensorFiles {
 public:
  // A .safetensors file, an index, or a folder that holds one of the two names above.
  static TensorFiles open(const std::filesystem::path& path);

  // Tensors by name.
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView& at(const std::string& name) const;
  // Metadata of all files; where files disagree, the first one's.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Reads whole tensors, by name, to places of their sizes. A file with a hash is read from its
  // beginning to its end, and its bytes must have that hash. `go_on` is called before each piece of
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

// Name and tensors of one file of several.
struct TensorFilePlan {
  std::string name;  // "model-00001-of-00002.safetensors"
  std::vector<TensorSpec> tensors;
};

// Deals whole tensors to `files` files, balanced by bytes; the result is the same on every host. A
// file may get no tensors.
std::vector<TensorFilePlan> plan_tensor_files(const std::vector<TensorSpec>& tensors, int files);

// Writes the index of planned files into their folder; the files are written with
// SafetensorsWriter.
void write_tensor_index(const std::filesystem::path& folder,
                        const std::vector<TensorFilePlan>& plan);

}  // namespace gangway
