// The words with which neither a sentence of a comment nor the name of a test begins: the reader
// would have to guess its subject.
//
// Threads: a pure function.
#pragma once

#include <array>
#include <string_view>

namespace gangway::tidy {

inline constexpr std::array<std::string_view, 8> kRiddles = {"Of",    "What", "Who", "Whose",
                                                             "Those", "By",   "As",  "So"};

// Whether `text` begins with one of the words. `goes_on` says of the character behind a word
// whether it makes a longer word of it.
inline bool begins_as_riddle(std::string_view text, bool (*goes_on)(char)) {
  for (const std::string_view word : kRiddles) {
    if (!text.starts_with(word)) continue;
    const std::string_view rest = text.substr(word.size());
    if (rest.empty() || !goes_on(rest[0])) return true;
  }
  return false;
}

}  // namespace gangway::tidy
