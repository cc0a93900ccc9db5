// The characters that words of the text form begin with and consist of, in every locale.
//
// Threads: pure functions.
#pragma once

namespace gangway::internal {

inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace gangway::internal
