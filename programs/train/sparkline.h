// The course of a number over a whole job in one short line: "▇▆▅▄▃▃▂▂▁▁▁".
//
// Each letter is the mean of equally many values; more values are combined as the job goes on. The
// lowest letter is the least mean shown, the highest the greatest. A letter '!' has a value that
// isn't finite.
//
// Threads: one at a time. Cost: a bounded number of means, whatever comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gangway::programs {

// Whether LC_ALL, LC_CTYPE or LANG says that the terminal shows more than ASCII.
bool is_utf8_terminal();

class Sparkline {
 public:
  void add(double value);
  // Returns a line of at most `columns` columns, in blocks (`utf8`) or in ASCII letters of like
  // heights.
  std::string text(size_t columns, bool utf8) const;

 private:
  struct Part {
    double sum = 0;
    int64_t values = 0;
  };

  std::vector<Part> parts_;
  int64_t values_a_part_ = 1;
};

}  // namespace gangway::programs
