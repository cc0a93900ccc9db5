// The only functions by which commands print to standard output.
//
// The text is written when the call returns. A disk that is full, or a pipe whose reader has gone,
// is therefore an error of the command, instead of lost text and status 0. Control characters are
// spelt out (runtime/base/printable.h), since texts come from files and from other users.
//
// Threads: one at a time.
// Errors: those of a write, as in durable_file.h, named "standard output".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gangway::tool {

// Prints the text as it is, with its line ends.
void print(std::string_view text);
// Prints each text as one line, whatever it contains.
void print_lines(const std::vector<std::string>& lines);
void print_line(std::string_view line);

// Prints control sequences, which the terminal obeys.
void print_controls(std::string_view text);

// Formats numbers like printf().
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace gangway::tool
