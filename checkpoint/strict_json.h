// Parses JSON from a file that is not trusted to a tree.
//
// Stricter than the standard: no object names a key twice, nothing is nested deeper than the limits
// allow, and no array is longer.
//
// Threads: a pure function; safe anywhere.
// Errors: kInvalid, beginning with `subject`.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gangway {

struct JsonLimits {
  size_t depth_max = 3;
  size_t array_max = 64;
};

nlohmann::json parse_strict_json(std::string_view text, const std::string& subject,
                                 JsonLimits limits = {});

}  // namespace gangway
