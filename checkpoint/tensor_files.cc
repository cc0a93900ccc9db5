#include "checkpoint/tensor_files.h"

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "checkpoint/tensor_index.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kIndexBytesMax = TensorIndex::kBytesMax;

// Reads one file from its beginning to its end, piece after piece, and hashes it.
class WholeFile {
 public:
  WholeFile(const SafetensorsFile& file, const std::function<void()>& go_on)
      : file_(file), go_on_(go_on) {}

  // Reads the next `bytes` bytes into `to`, or nowhere if `to` is empty.
  void read(uint64_t bytes, std::span<std::byte> to) {
    for (uint64_t end = at_ + bytes; at_ < end;) {
      if (go_on_) go_on_();
      const size_t count = std::min<uint64_t>(TensorFiles::kPieceBytes, end - at_);
      if (to.empty()) buffer_.resize(std::max(buffer_.size(), count));
      const std::span<std::byte> piece =
          to.empty() ? std::span(buffer_).first(count) : to.first(count);
      file_.read_at(at_, piece);
      hasher_.add_unframed(piece.data(), piece.size());
      at_ += count;
      if (!to.empty()) to = to.subspan(count);
    }
  }
  std::string hash() const { return to_string(hasher_.finish()); }

 private:
  const SafetensorsFile& file_;
  const std::function<void()>& go_on_;
  std::vector<std::byte> buffer_;
  Hasher hasher_;
  uint64_t at_ = 0;
};

}  // namespace

TensorFiles TensorFiles::open(const fs::path& path) {
  TensorFiles result;
  result.name_ = path.string();
  fs::path file = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    file = path / kIndexFile;
    if (!fs::exists(file, error)) file = path / kModelFile;
    GW_REQUIRE(fs::exists(file, error), path.string(),
               ": the folder holds no checkpoint: expected ", kModelFile, " or ", kIndexFile);
  }
  result.hashes_ = read_file_hashes(file.parent_path());
  if (file.extension() == ".json") {
    result.add_indexed(file);
  } else {
    result.add_all(file);
  }
  return result;
}

const TensorView& TensorFiles::at(const std::string& name) const {
  auto found = tensors_.find(name);
  GW_REQUIRE(found != tensors_.end(), name_, ": there is no tensor ", name);
  return found->second;
}

const SafetensorsFile& TensorFiles::add_file(const fs::path& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  const SafetensorsFile& file = *files_.back();
  metadata_.insert(file.header().metadata.begin(), file.header().metadata.end());
  return file;
}

void TensorFiles::add_all(const fs::path& path) {
  const SafetensorsFile& file = add_file(path);
  for (const TensorEntry& tensor : file.header().tensors) {
    tensors_[tensor.spec.name] = {&tensor.spec, &file, &tensor};
  }
}

void TensorFiles::add_indexed(const fs::path& path) {
  std::string subject = path.string();
  TensorIndex index = parse_tensor_index(read_whole(path, kIndexBytesMax), subject);
  std::map<std::string, const SafetensorsFile*> opened;
  uint64_t bytes = 0;
  for (const auto& [name, file_name] : index.file_of) {
    const SafetensorsFile*& file = opened[file_name];
    if (!file) file = &add_file(path.parent_path() / file_name);
    const TensorEntry* tensor = file->find(name);
    GW_REQUIRE(tensor, subject, ": tensor ", name, " is not in ", file_name);
    tensors_[name] = {&tensor->spec, file, tensor};
    bytes += tensor->end - tensor->begin;
  }
  GW_REQUIRE(!index.total_bytes || *index.total_bytes == bytes, subject, ": total_size: expected ",
             bytes, " bytes, got ", *index.total_bytes);
}

std::vector<std::byte> TensorView::read_all() const {
  std::vector<std::byte> bytes(size());
  read(0, bytes);
  return bytes;
}

void TensorFiles::read(const Places& to, const std::function<void()>& go_on) const {
  const auto place_of = [&](const TensorEntry& tensor) {
    const auto found = to.find(tensor.spec.name);
    if (found == to.end()) return std::span<std::byte>();
    GW_REQUIRE(found->second.size() == tensor.end - tensor.begin, name_, ": tensor ",
               tensor.spec.name, ": expected a place of ", tensor.end - tensor.begin,
               " bytes, got ", found->second.size());
    return found->second;
  };
  for (const auto& file : files_) {
    const auto expected = hashes_.find(file->path().filename().string());
    if (expected == hashes_.end()) {
      for (const TensorEntry& tensor : file->header().tensors) {
        std::span<std::byte> place = place_of(tensor);
        for (uint64_t at = 0; at < place.size(); at += kPieceBytes) {
          if (go_on) go_on();
          file->read(tensor, at,
                     place.subspan(at, std::min<uint64_t>(kPieceBytes, place.size() - at)));
        }
      }
      continue;
    }
    WholeFile whole(*file, go_on);
    whole.read(file->data_begin(), {});
    for (const TensorEntry& tensor : file->header().tensors)
      whole.read(tensor.end - tensor.begin, place_of(tensor));
    GW_REQUIRE(whole.hash() == expected->second, file->path().string(),
               ": the file is damaged: expected the BLAKE2b hash ", expected->second, " that ",
               kHashesFile, " has of it, got ", whole.hash());
  }
}

std::vector<TensorFilePlan> plan_tensor_files(const std::vector<TensorSpec>& tensors, int files) {
  constexpr int kFilesMax = 99'999;  // Five digits.
  GW_REQUIRE(files >= 1 && files <= kFilesMax, "checkpoint: expected 1 to ", kFilesMax,
             " files, got ", files);
  std::vector<TensorFilePlan> plan;
  std::vector<uint64_t> bytes(static_cast<size_t>(files));
  for (int i = 1; i <= files; ++i) {
    std::string number = std::to_string(100'000 + i).substr(1);
    std::string count = std::to_string(100'000 + files).substr(1);
    plan.push_back({.name = cat("model-", number, "-of-", count, ".safetensors"), .tensors = {}});
  }
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto size = [&tensors](size_t i) { return byte_size(tensors[i]).value_or(0); };
  std::stable_sort(order.begin(), order.end(),
                   [&size](size_t a, size_t b) { return size(a) > size(b); });
  // The largest tensor goes first, to the emptiest file; ties go to the file with fewer tensors,
  // then to the first.
  for (size_t i : order) {
    size_t to = 0;
    for (size_t f = 1; f < plan.size(); ++f) {
      if (std::pair(bytes[f], plan[f].tensors.size()) <
          std::pair(bytes[to], plan[to].tensors.size())) {
        to = f;
      }
    }
    bytes[to] += size(i);
    plan[to].tensors.push_back(tensors[i]);
  }
  return plan;
}

void write_tensor_index(const fs::path& folder, const std::vector<TensorFilePlan>& plan) {
  TensorIndex index = {.file_of = {}, .total_bytes = 0};
  for (const TensorFilePlan& file : plan) {
    for (const TensorSpec& tensor : file.tensors) {
      index.file_of[tensor.name] = file.name;
      *index.total_bytes += byte_size(tensor).value_or(0);
    }
  }
  fs::path path = folder / kIndexFile;
  write_durably(path, print_tensor_index(index, path.string()));
}

}  // namespace gangway
