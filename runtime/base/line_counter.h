// LineCounter: walks over a text and counts the lines that were read, for parsers that take a pair
// of iterators and do not say at which line an error is.
//
// Threads: a value; the text and the count outlive it.
#pragma once

#include <cstddef>
#include <iterator>

namespace gangway {

class LineCounter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  // `line` begins as the number of the first line.
  LineCounter(const char* at, int& line) : at_(at), line_(&line) {}
  reference operator*() const { return *at_; }
  LineCounter& operator++() {
    if (*at_++ == '\n') ++*line_;
    return *this;
  }
  LineCounter operator++(int) {
    const LineCounter before = *this;
    ++*this;
    return before;
  }
  bool operator==(const LineCounter& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  int* line_;
};

}  // namespace gangway
