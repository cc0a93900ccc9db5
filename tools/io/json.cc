#include "tools/io/json.h"

#include <nlohmann/json.hpp>

namespace gangway::tool {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const JsonObject& object) {
  Json out = Json::object();
  for (const auto& [name, value] : object)
    std::visit([&, &key = name](const auto& v) { out[key] = v; }, value);
  return out;
}

std::string text_of(const Json& out) {
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const JsonObject& object) { return text_of(json_of(object)); }

std::string to_json(const std::vector<JsonObject>& list) {
  Json out = Json::array();
  for (const JsonObject& object : list) out.push_back(json_of(object));
  return text_of(out);
}

}  // namespace gangway::tool
