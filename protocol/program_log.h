// The log of a program: lines that its client sends, and lines that the controller adds.
//
// The controller keeps the newest lines of each program, and of those that have ended for a while.
// Lines are numbered from 1, dropped ones too: where numbers are missing, lines were dropped.
//
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gangway {

inline constexpr size_t kLogLineBytesMax = 1024;  // Longer ones are cut, which they say.
inline constexpr size_t kLogLinesMax = 1000;      // Of a program, that are kept.
inline constexpr size_t kLogBytesMax = 128 << 10;
inline constexpr size_t kLogLinesOfCallMax = 256;  // More at once are refused.
inline constexpr int64_t kLogWaitMsMax = 60'000;   // Of a call that waits for lines.

struct LoggedLine {
  uint64_t number = 0;
  int64_t time_ns = 0;      // Since 1970, by the controller's clock.
  bool of_program = false;  // Its client said it; else its controller did.
  std::string text;         // As it was said: whoever prints it takes control characters out.
};

struct ProgramLog {
  uint64_t program = 0;           // The number of its session.
  std::vector<LoggedLine> lines;  // In their order.
  uint64_t last = 0;              // The number of the newest.
  bool ended = false;             // Nothing comes behind them.
};

struct LogRequest {
  uint64_t program = 0;  // Only this one of the name; 0: the one that has it, or had it last.
  uint64_t after = 0;    // Lines behind this one.
  int64_t wait_ms = 0;   // Where there are none: waits for as long, a minute at most.
};

}  // namespace gangway
