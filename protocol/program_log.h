// The log of a program: lines that its client sends, and lines that the controller adds.
//
// The controller keeps the newest lines of each program, for a while also after the program has
// ended. Lines are numbered from 1, dropped ones too: where numbers are missing, lines were
// dropped.
//
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gangway {

inline constexpr size_t kLogLineBytesMax = 1024;  // Longer lines are cut, with a mark that says so.
inline constexpr size_t kLogLinesMax = 1000;      // Number of a program's lines that are kept.
inline constexpr size_t kLogBytesMax = 128 << 10;
inline constexpr size_t kLogLinesOfCallMax = 256;  // A call with more lines is refused.
inline constexpr int64_t kLogWaitMsMax = 60'000;   // Limit on how long a call waits for lines.

struct LoggedLine {
  uint64_t number = 0;
  int64_t time_ns = 0;      // Since 1970, by the controller's clock.
  bool of_program = false;  // Its client sent the line; else the controller added it.
  std::string text;         // The line as sent: whoever prints it takes control characters out.
};

struct ProgramLog {
  uint64_t program = 0;           // The number of its session.
  std::vector<LoggedLine> lines;  // In their order.
  uint64_t last = 0;              // The number of the newest.
  bool ended = false;             // The program has ended, so no lines follow these.
};

struct LogRequest {
  uint64_t program = 0;  // Reads the log of this program of the name only; 0: of the newest.
  uint64_t after = 0;    // Lines behind this one.
  int64_t wait_ms = 0;   // If there are none: waits this long for one, a minute at most.
};

}  // namespace gangway
