// The course of a number over a whole job in one short line: "▇▆▅▄▃▃▂▂▁▁▁".
//
// Each letter is the mean of equally many values; they are put together as there become more. The
// lowest letter is the least mean shown, the highest the greatest; '!' has a value that isn't
// finite.
//
// Threads: one at a time. Cost: a bounded number of means, whatever comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gangway::programs {

// By LC_ALL, LC_CTYPE and LANG: whether the terminal shows more than ASCII.
bool is_utf8_terminal();

class Sparkline {
 public:
  void add(double value);
  // Of at most so many columns; `utf8`: of blocks, else of ASCII that lies as high.
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
