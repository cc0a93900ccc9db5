// The output of commands with --json: objects of a few named values, one line each.
//
// Threads: pure functions.
// Errors: none; a number that JSON does not have (inf, nan) is null, and bytes that are not UTF-8
// are replaced.
//
//   to_json(JsonObject{{"name", "w"}, {"bytes", uint64_t{16}}})       // {"name":"w","bytes":16}
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gangway::tool {

using JsonValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
using JsonObject = std::vector<std::pair<std::string, JsonValue>>;

std::string to_json(const JsonObject& object);
std::string to_json(const std::vector<JsonObject>& list);

}  // namespace gangway::tool
