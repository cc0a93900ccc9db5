#include "checkpoint/tensor_index.h"

#include <nlohmann/json.hpp>

#include "checkpoint/strict_json.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using Json = nlohmann::json;

// Whether the name has no folders: an index may not reach out of its own folder.
bool is_plain_file_name(const std::string& name) {
  return name.ends_with(".safetensors") && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

std::optional<uint64_t> find_total_bytes(const Json& json) {
  auto metadata = json.find("metadata");
  if (metadata == json.end() || !metadata->is_object()) return std::nullopt;
  auto total = metadata->find("total_size");
  if (total == metadata->end() || !total->is_number_unsigned()) return std::nullopt;
  return total->get<uint64_t>();
}

}  // namespace

TensorIndex parse_tensor_index(std::string_view text, const std::string& subject) {
  Json json = parse_strict_json(text, subject);
  GW_REQUIRE(json.is_object(), subject, ": expected an object, got ", json.type_name());
  auto map = json.find("weight_map");
  GW_REQUIRE(map != json.end() && map->is_object(), subject,
             ": the index has no object \"weight_map\"");
  TensorIndex index = {.file_of = {}, .total_bytes = find_total_bytes(json)};
  for (const auto& [tensor, file] : map->items()) {
    GW_REQUIRE(file.is_string() && is_plain_file_name(file.get_ref<const std::string&>()), subject,
               ": tensor ", Json(tensor).dump(),
               ": expected the name of a .safetensors file of the same folder, got ", file.dump());
    index.file_of[tensor] = file.get<std::string>();
  }
  return index;
}

std::string print_tensor_index(const TensorIndex& index, const std::string& subject) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (index.total_bytes) json["metadata"]["total_size"] = *index.total_bytes;
  json["weight_map"] = index.file_of;
  if (index.file_of.empty()) json["weight_map"] = nlohmann::ordered_json::object();
  for (const auto& [tensor, file] : index.file_of)
    GW_REQUIRE(is_plain_file_name(file), subject, ": tensor ", tensor,
               ": expected the name of a .safetensors file of the same folder, got ", file);
  try {
    std::string text = json.dump(2) + "\n";
    GW_REQUIRE(text.size() <= TensorIndex::kBytesMax, subject, ": the index of ", text.size(),
               " bytes is above the limit of ", TensorIndex::kBytesMax);
    return text;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kInvalid, cat(subject, ": a name is not UTF-8: ", error.what()));
  }
}

}  // namespace gangway
