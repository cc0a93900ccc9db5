// A program on a pseudo-terminal of a given size, as a person would see it.
//
// Threads: one. Ownership: destroying it kills the program and reaps it.
#pragma once

#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <regex>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace gangway {

class OnTerminal {
 public:
  OnTerminal(std::vector<std::string> arguments, uint16_t columns, uint16_t rows = 50) {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    GW_REQUIRE(child_ >= 0, "terminal: can't open one");
    if (child_ == 0) {
      execv(words[0], words.data());
      _exit(127);
    }
  }
  ~OnTerminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(terminal_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  // Waits until the program has written `what` after the text that the last call waited for.
  // Returns false if the program ended without writing it.
  bool wait_for(const std::string& what) {
    while (true) {
      const size_t at = text_.find(what, seen_);
      if (at != text_.npos) {
        seen_ = at + what.size();
        return true;
      }
      if (!read_more()) return false;
    }
  }
  void resize(uint16_t columns, uint16_t rows = 50) const {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    GW_REQUIRE(ioctl(terminal_, TIOCSWINSZ, &size) == 0, "terminal: can't be resized");
  }
  void signal(int number) const { kill(child_, number); }
  // Stops the program until SIGCONT; it has stopped when this returns.
  void stop() const {
    kill(child_, SIGSTOP);
    waitpid(child_, nullptr, WUNTRACED);
  }
  // Types keys; "\x03" is Ctrl-C, a signal to all processes in the foreground.
  void type(const std::string& keys) const {
    GW_REQUIRE(write(terminal_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()),
               "terminal: can't be typed at");
  }
  // Waits for the program's end; returns the status of waitpid().
  int end() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return status;
  }
  // All that the program has written, without AddressSanitizer's warning about processes with
  // fibers.
  std::string text() const {
    static const std::regex notice("==[0-9]+==WARNING: ASan doesn't fully support [^\n]*\n");
    return std::regex_replace(text_, notice, "");
  }

 private:
  bool read_more() {
    char bytes[4096];
    const ssize_t count = read(terminal_, bytes, sizeof(bytes));
    if (count <= 0) return false;  // EIO once no process has it open any more.
    text_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string text_;
  size_t seen_ = 0;
};

}  // namespace gangway
