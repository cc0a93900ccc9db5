#include "tools/io/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/printable.h"

namespace gangway::tool {
namespace {

constexpr size_t kGap = 2;  // Between columns.

std::string spaces_beside(const std::string& printable_text, size_t width) {
  return std::string(width - std::min(width, width_of(printable_text)), ' ');
}

// Chooses the columns that are shown, and their widths.
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
      const std::string cell = shortened(cells[i], widths_[i]);
      text += table_.columns[i].is_number ? spaces_beside(cell, widths_[i]) + cell
                                          : padded(cell, widths_[i]);
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
  // Shortens the widest text column by one.
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
  // Gives the room of columns that were left out back to texts.
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

size_t width_of(std::string_view printable_text) {
  size_t columns = 0;
  while (!printable_text.empty()) {
    const ShownLetter letter = first_letter(printable_text);
    columns += letter.columns;
    printable_text.remove_prefix(letter.bytes);
  }
  return columns;
}

std::string padded(const std::string& printable_text, size_t width) {
  return printable_text + spaces_beside(printable_text, width);
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

}  // namespace gangway::tool
