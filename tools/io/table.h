// Tables for people, which fit the width of a terminal.
//
// If a table is too wide, texts are shortened first, the longest column first, down to the column's
// `least`, with an ellipsis. After that whole columns are left out, the highest `drop` first.
// Columns with a `drop` of 0 stay, and lines are cut at the end if even these columns do not fit.
// Control characters, which a terminal would obey, are spelt out: texts come from other users.
//
// Threads: pure, but for terminal_size().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gangway::tool {

struct Column {
  std::string title;
  bool is_number = false;  // Aligned to the right, and never shortened.
  int drop = 0;
  size_t least = 8;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // A cell for each column.
};

// Returns the lines, without line ends; `width` 0: as wide as need be.
std::vector<std::string> lines_of(const Table& table, size_t width);

// Returns the number of columns that the text takes on a terminal at most; the text is printable()
// already.
size_t width_of(std::string_view printable_text);
// Adds spaces at the end, up to `width` columns.
std::string padded(const std::string& printable_text, size_t width);
// Shortens the text, with an ellipsis, if it is wider.
std::string shortened(const std::string& printable_text, size_t width);

struct TerminalSize {
  size_t columns = 0, rows = 0;  // 0: no terminal.
};
// Returns the size of standard output's terminal.
TerminalSize terminal_size();

}  // namespace gangway::tool
