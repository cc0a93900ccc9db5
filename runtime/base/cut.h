// Texts of bounded length: what a peer sent, or a user named, before it goes on to others.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gangway {

// `text` when it has at most `bytes_max` bytes. Otherwise its first `bytes_max` bytes or, so as not
// to split a UTF-8 character, up to three less, and how long it was: "abc... (cut: 4096
// bytes)".
std::string cut(std::string_view text, size_t bytes_max);

}  // namespace gangway
