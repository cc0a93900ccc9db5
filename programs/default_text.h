// The book that is trained on when the user gives no text: the King James Bible of Debian's package
// bible-kjv, about 4.1 MB, one verse a line, without the verses' numbers.
//
// Suspends nothing; blocks for about 0.1 s while the package's program prints the book.
// Threads: any thread.
// Errors: kInvalid when the program is missing or prints something else.
#pragma once

#include <string>
#include <string_view>

namespace gangway::programs {

// `program` is found in PATH.
std::string default_text(const std::string& program = "bible");

// "Ge1:1 In the beginning ...\n" becomes "In the beginning ...\n", on every line.
std::string strip_verse_numbers(std::string_view text);

}  // namespace gangway::programs
