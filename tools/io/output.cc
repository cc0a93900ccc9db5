#include "tools/io/output.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "runtime/base/durable_file.h"
#include "runtime/base/printable.h"

namespace gangway::tool {

void print_controls(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail_file("write to", "standard output", errno != 0 ? errno : EIO);
}

void print(std::string_view text) { print_controls(printable_lines(text)); }

void print_line(std::string_view line) { print_controls(printable(line) + "\n"); }

void print_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += printable(line) + "\n";
  print_controls(text);
}

std::string formatted(const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  return text;
}

}  // namespace gangway::tool
