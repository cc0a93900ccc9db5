// `gangway train --config FILE`: a model's sizes as one JSON object, which is what a run leaves as
// model.json.
//
//   {"layers": 4, "dim": 256, "heads": 8, "experts": [0, 0, 8, 8]}
//
// Threads: pure.
// Errors: kInvalid, naming file, line and key, for what is no such object, for a key that there is
// not or that stands twice, and for a value of another type; kInvalid for a file that can't be
// read.
#pragma once

#include <string>
#include <vector>

#include "programs/train/model_sizes.h"

namespace gangway::tool {

inline constexpr size_t kSizesBytesMax = 1 << 20;

// What the text says, in its order; `file` is what errors name.
std::vector<programs::SaidSize> parse_sizes(const std::string& text, const std::string& file);
std::vector<programs::SaidSize> read_sizes(const std::string& file);

}  // namespace gangway::tool
