#include "checkpoint/safetensors_writer.h"

#include "runtime/base/error.h"

namespace gangway {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorSpec>& specs,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  SafetensorsHeader header = lay_out(specs, metadata, path.string());
  std::string text = print_header(header, path.string());
  file_.write_at(0, std::as_bytes(std::span(text)));
  for (const TensorEntry& tensor : header.tensors) {
    cursors_[tensor.spec.name] = {text.size() + tensor.begin, text.size() + tensor.end};
  }
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
  cursor.next += bytes.size();
}

void SafetensorsWriter::finish() {
  for (const auto& [name, cursor] : cursors_) {
    GW_REQUIRE(cursor.next == cursor.end, file_.path().string(), ": tensor ", name,
               " is incomplete: expected ", cursor.end - cursor.next, " more bytes");
  }
  file_.finish();
}

}  // namespace gangway
