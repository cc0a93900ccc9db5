// Bounds the length of a text that a peer sent or a user chose, before it is passed on to others.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gangway {

// Returns `text` when it has at most `bytes_max` bytes. Otherwise returns its first `bytes_max`
// bytes (up to three fewer, to keep UTF-8 characters whole) and its length: "abc... (cut: 4096
// bytes)".
std::string cut(std::string_view text, size_t bytes_max);

}  // namespace gangway
