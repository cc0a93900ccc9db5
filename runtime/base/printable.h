// Texts that came from a file or a peer, as a terminal may show them.
//
// A terminal obeys control characters: it clears the screen, types an answer, turns text around. So
// whoever prints passes texts through here. What is not shown as it is, is shown as JSON spells it
// ("\n", "\u001b", "\u202e"), so that two names stay two names, and JSON stays JSON; of what is not
// UTF-8 each byte is "\xff".
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gangway {

// One line: also the ends of lines in it are spelt out.
std::string printable(std::string_view text);
// Lines stay lines.
std::string printable_lines(std::string_view text);

// The first letter of a text: its bytes, and how many columns it takes on a terminal at most (those
// of scripts that terminals may show wide take two).
struct ShownLetter {
  size_t bytes = 1, columns = 1;
  bool is_shown = true;  // As it is.
};
ShownLetter first_letter(std::string_view text);

}  // namespace gangway
