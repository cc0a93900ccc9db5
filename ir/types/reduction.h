// How the terms of a partial tensor are combined into one; all-reduces, reduce-scatters and partial
// placements name a reduction.
//
// Threads: values; pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gangway {

// Numbers of the wire form: append only.
enum class Reduction : uint8_t { kSum = 0, kMax = 1, kMin = 2 };

std::string_view to_string(Reduction reduction);  // "sum", "max", "min"
std::optional<Reduction> parse_reduction(std::string_view text);

}  // namespace gangway
