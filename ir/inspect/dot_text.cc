#include "ir/inspect/dot_text.h"

#include "runtime/base/cat.h"
#include "runtime/base/quote.h"

namespace gangway::internal {
namespace {

constexpr size_t kLineBytesMax = 48;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// At the end of a character.
std::string cut(const std::string& line) {
  if (line.size() <= kLineBytesMax) return line;
  size_t end = kLineBytesMax - 3;
  while (end > 0 && continues(line[end])) --end;
  return line.substr(0, end) + "...";
}

void append_escaped(const std::string& line, std::string& text) {
  const bool is_text = is_utf8(line);
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '&') {
      text += "&amp;";
    } else if (byte < 0x20 || byte == 0x7F) {
      text += ' ';
    } else {
      text += !is_text && byte >= 0x80 ? '?' : c;
    }
  }
}

}  // namespace

std::string dot_label(const std::vector<std::string>& lines) {
  std::string text = "\"";
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    if (text.size() > 1) text += "\\n";
    append_escaped(cut(line), text);
  }
  return text + "\"";
}

void EdgeList::add(const std::string& from, const std::string& to, const std::string& style) {
  if (from == to || !seen_.emplace(from, cat(to, " ", style)).second) return;
  text_ += cat("  ", from, " -> ", to, style.empty() ? "" : cat(" [", style, "]"), ";\n");
}

void EdgeList::write(std::string& out) const { out += text_; }

}  // namespace gangway::internal
