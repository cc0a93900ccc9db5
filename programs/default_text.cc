#include "programs/default_text.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>

#include "runtime/base/error.h"

extern char** environ;

namespace gangway::programs {
namespace {

constexpr const char* kHint =
    "install the packages bible-kjv and bible-kjv-text, or give a text of your own";

[[noreturn]] void fail(const std::string& program, const std::string& what) {
  throw Error(ErrorKind::kInvalid, cat("default text: ", program, ": ", what), {}, kHint);
}

// "Ge1:1", "2Chr36:23": a book, then chapter:verse.
bool is_verse_reference(std::string_view word) {
  size_t colon = word.find(':');
  if (colon == std::string_view::npos || colon + 1 == word.size()) return false;
  auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  std::string_view verse = word.substr(colon + 1);
  return colon > 1 && digit(static_cast<unsigned char>(word[colon - 1])) &&
         std::all_of(verse.begin(), verse.end(), digit);
}

// Reads all that a program writes to the other end of the pipe `descriptor`.
std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

std::string output_of(const std::string& program, std::array<const char*, 4> arguments) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(program, "cannot make a pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  pid_t child = 0;
  int error = posix_spawnp(&child, program.c_str(), &actions, nullptr,
                           const_cast<char**>(arguments.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text = error == 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (error == ENOENT) fail(program, "the program is not installed");
  if (error != 0) fail(program, "the program cannot be started");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (status != 0) fail(program, cat("the program ended with status ", status));
  return text;
}

}  // namespace

std::string strip_verse_numbers(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    size_t space = line.find(' ');
    if (space != std::string_view::npos && is_verse_reference(line.substr(0, space))) {
      line.remove_prefix(space + 1);
    }
    result += line;
  }
  return result;
}

std::string default_text(const std::string& program) {
  std::string printed = output_of(program, {program.c_str(), "-f", "gen1:1-rev22:21", nullptr});
  std::string text = strip_verse_numbers(printed);
  // A verse number costs at least five bytes: the book has 31,102 of them.
  constexpr size_t kBytesMin = 4'000'000;
  if (text.size() < kBytesMin || printed.size() - text.size() < 100'000) {
    fail(program, cat("expected a book of numbered verses of at least ", kBytesMin, " bytes, got ",
                      printed.size(), " bytes"));
  }
  return text;
}

}  // namespace gangway::programs
