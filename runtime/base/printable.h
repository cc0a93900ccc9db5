// Makes texts that came from a file or a peer safe to show on a terminal.
//
// A terminal obeys control characters: it clears the screen, types an answer, turns text around.
// Code that prints such a text therefore passes it through here first. Characters that a terminal
// should not get are spelt with JSON's escapes ("\n", "\u001b", "\u202e"), so that different names
// stay different and JSON stays JSON. Each byte that is not UTF-8 becomes "\xff".
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gangway {

// Returns one line: line ends are escaped too.
std::string printable(std::string_view text);
// Keeps line ends as they are.
std::string printable_lines(std::string_view text);

// The first letter of a text: its bytes, and the most columns that it takes on a terminal (two for
// scripts that terminals may show wide).
struct ShownLetter {
  size_t bytes = 1, columns = 1;
  bool is_shown = true;  // Whether it is shown unescaped.
};
ShownLetter first_letter(std::string_view text);

}  // namespace gangway
