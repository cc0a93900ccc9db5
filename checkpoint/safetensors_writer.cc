#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"

namespace gangway {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorSpec>& specs,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  SafetensorsHeader header = lay_out(specs, metadata, path.string());
  std::string text = print_header(header, path.string());
  file_.write_at(0, std::as_bytes(std::span(text)));
  hasher_.add_unframed(text.data(), text.size());
  hashed_ = text.size();
  bytes_ = text.size() + header.data_bytes();
  for (const TensorEntry& tensor : header.tensors) {
    cursors_[tensor.spec.name] = {text.size() + tensor.begin, text.size() + tensor.end};
  }
  tensors_ = std::move(header.tensors);
}

void SafetensorsWriter::append(const std::string& name, std::span<const std::byte> bytes) {
  auto found = cursors_.find(name);
  GW_REQUIRE(found != cursors_.end(), file_.path().string(), ": tensor ", name,
             " is not in the header");
  Cursor& cursor = found->second;
  GW_REQUIRE(bytes.size() <= cursor.end - cursor.next, file_.path().string(), ": tensor ", name,
             ": too many bytes: expected at most ", cursor.end - cursor.next, " more, got ",
             bytes.size());
  file_.write_at(cursor.next, bytes);
  if (cursor.next == hashed_) {
    hasher_.add_unframed(bytes.data(), bytes.size());
    hashed_ += bytes.size();
  }
  cursor.next += bytes.size();
}

std::string SafetensorsWriter::hash_of_file() const {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  Hasher hasher = hasher_;
  std::vector<std::byte> block;
  for (uint64_t at = hashed_; at < bytes_; at += block.size()) {
    block.resize(std::min<uint64_t>(kBlockBytes, bytes_ - at));
    file_.read_at(at, block);
    hasher.add_unframed(block.data(), block.size());
  }
  return to_string(hasher.finish());
}

std::string SafetensorsWriter::finish() {
  for (const auto& [name, cursor] : cursors_) {
    GW_REQUIRE(cursor.next == cursor.end, file_.path().string(), ": tensor ", name,
               " is incomplete: expected ", cursor.end - cursor.next, " more bytes");
  }
  const std::string hash = hash_of_file();
  file_.finish();
  return hash;
}

}  // namespace gangway
