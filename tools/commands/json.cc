#include "tools/commands/json.h"

#include <nlohmann/json.hpp>

namespace gangway::tool {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const JsonObject& object) {
  Json json = Json::object();
  for (const auto& [name, value] : object)
    std::visit([&, &key = name](const auto& v) { json[key] = v; }, value);
  return json;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const JsonObject& object) { return text_of(json_of(object)); }

std::string to_json(const std::vector<JsonObject>& list) {
  Json json = Json::array();
  for (const JsonObject& object : list) json.push_back(json_of(object));
  return text_of(json);
}

}  // namespace gangway::tool
