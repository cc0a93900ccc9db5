// `gangway train --config FILE`: a model's sizes as one JSON object. A training writes such a file
// as model.json.
//
//   {"layers": 4, "dim": 256, "heads": 8, "experts": [0, 0, 8, 8]}
//
// Threads: pure.
// Errors: kInvalid, naming file, line and key, for a text that is no such object, for a key that is
// unknown or stands twice, and for a value of another type. For a file that can't be read, or is
// too long: as runtime/base/durable_file.h.
#pragma once

#include <string>
#include <vector>

#include "programs/train/model_sizes.h"

namespace gangway::tool {

inline constexpr size_t kSizesBytesMax = 1 << 20;

// Returns the sizes in the text, in its order. Errors name `file`.
std::vector<programs::SaidSize> parse_sizes(const std::string& text, const std::string& file);
std::vector<programs::SaidSize> read_sizes(const std::string& file);

}  // namespace gangway::tool
