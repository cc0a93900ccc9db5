#include "tools/commands/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>

namespace gangway::tool {
namespace {

constexpr size_t kGap = 2;  // Between columns.

struct Letter {
  size_t bytes = 1, columns = 1;
  bool is_shown = true;
};

// The first letter of a text. Those of scripts that terminals may show wide count two columns.
Letter first_letter(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, 1, first >= 0x20 && first != 0x7f};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes > text.size()) return {1, 1, false};
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {1, 1, false};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool is_control = code < 0xa0;
  const bool turns_text = (code >= 0x200b && code <= 0x200f) ||
                          (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return {bytes, code >= 0x1100 && code != 0x2026 ? 2u : 1u, !is_control && !turns_text};
}

std::string padded(const std::string& text, size_t width, bool to_the_right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return to_the_right ? space + text : text + space;
}

// Which columns are shown, and how wide.
class Layout {
 public:
  Layout(const Table& table, size_t width) : table_(table), widths_(table.columns.size()) {
    for (size_t i = 0; i < widths_.size(); ++i) {
      widths_[i] = width_of(table.columns[i].title);
      for (const auto& row : table.rows) widths_[i] = std::max(widths_[i], width_of(row[i]));
    }
    shown_.resize(widths_.size());
    std::iota(shown_.begin(), shown_.end(), size_t{0});
    if (width == 0) return;
    while (total() > width && shorten()) {
    }
    while (total() > width && drop()) {
    }
    widen(width);
  }

  std::string line(const std::vector<std::string>& cells) const {
    std::string text;
    for (const size_t i : shown_) {
      if (!text.empty()) text.append(kGap, ' ');
      text += padded(shortened(cells[i], widths_[i]), widths_[i], table_.columns[i].is_number);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  size_t total() const {
    size_t sum = shown_.empty() ? 0 : kGap * (shown_.size() - 1);
    for (const size_t i : shown_) sum += widths_[i];
    return sum;
  }
  size_t least(size_t i) const {
    return std::max(table_.columns[i].least, width_of(table_.columns[i].title));
  }
  // The widest text by one.
  bool shorten() {
    size_t* widest = nullptr;
    for (const size_t i : shown_) {
      if (table_.columns[i].is_number || widths_[i] <= least(i)) continue;
      if (widest == nullptr || widths_[i] > *widest) widest = &widths_[i];
    }
    if (widest != nullptr) --*widest;
    return widest != nullptr;
  }
  bool drop() {
    const auto last = std::ranges::max_element(
        shown_, {}, [&](size_t i) { return std::pair(table_.columns[i].drop, i); });
    if (last == shown_.end() || table_.columns[*last].drop == 0) return false;
    shown_.erase(last);
    return true;
  }
  // What columns that were left out leave free goes back to texts.
  void widen(size_t width) {
    for (const size_t i : shown_) {
      if (table_.columns[i].is_number) continue;
      size_t wanted = width_of(table_.columns[i].title);
      for (const auto& row : table_.rows) wanted = std::max(wanted, width_of(row[i]));
      while (widths_[i] < wanted && total() < width) ++widths_[i];
    }
  }

  const Table& table_;
  std::vector<size_t> widths_;
  std::vector<size_t> shown_;
};

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    shown += letter.is_shown ? std::string(text.substr(0, letter.bytes)) : "?";
    text.remove_prefix(letter.bytes);
  }
  return shown;
}

size_t width_of(std::string_view printable_text) {
  size_t columns = 0;
  while (!printable_text.empty()) {
    const Letter letter = first_letter(printable_text);
    columns += letter.columns;
    printable_text.remove_prefix(letter.bytes);
  }
  return columns;
}

std::string shortened(const std::string& printable_text, size_t width) {
  if (width_of(printable_text) <= width) return printable_text;
  if (width == 0) return "";
  std::string_view rest = printable_text;
  size_t columns = 0;
  while (columns + first_letter(rest).columns < width) {
    columns += first_letter(rest).columns;
    rest.remove_prefix(first_letter(rest).bytes);
  }
  return printable_text.substr(0, printable_text.size() - rest.size()) + "…";
}

std::vector<std::string> lines_of(const Table& table, size_t width) {
  Table shown = table;
  std::vector<std::string> titles;
  for (const Column& column : shown.columns) titles.push_back(column.title);
  for (auto& row : shown.rows) {
    for (std::string& cell : row) cell = printable(cell);
  }
  const Layout layout(shown, width);
  std::vector<std::string> lines{layout.line(titles)};
  for (const auto& row : shown.rows) lines.push_back(layout.line(row));
  for (std::string& line : lines) {
    if (width > 0) line = shortened(line, width);
  }
  return lines;
}

TerminalSize terminal_size() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_col, size.ws_row};
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace gangway::tool
