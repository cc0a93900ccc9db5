// How commands print: to standard output, and through these functions alone.
//
// What is printed is on its way when the call returns: a disk that is full, or a pipe that nobody
// reads any more, is an error of the command and not a text that is lost with status 0. Control
// characters are spelt out (runtime/base/printable.h): texts come from files and from other users.
//
// Threads: one at a time.
// Errors: of a write, as durable_file.h has them, named "standard output".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gangway::tool {

// The text as it is; its lines stay lines.
void print(std::string_view text);
// Each is one line, whatever is in it.
void print_lines(const std::vector<std::string>& lines);
void print_line(std::string_view line);

// For a terminal: what is in it is obeyed.
void print_controls(std::string_view text);

// As printf() has it, for numbers.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace gangway::tool
