// Report: one thing that a program did wrong with the emulated driver; Reports collects them.
//
// A report names the operations by their labels. The same mistake of the same operations is
// reported once.
// Threads: the machine's lock guards them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace gangway::emulated {

enum class Fault : uint8_t {
  kUnordered,      // Two accesses to the same bytes, one a write, that nothing orders.
  kBounds,         // An access outside of every allocation, or of what the operation declared.
  kAfterFree,      // An access to memory that was freed before.
  kMisaligned,     // An access at an address that its type may not have.
  kUninitialised,  // A read of bytes that nothing has written.
  kThreadRace,     // Two threads of one launch, one a write, that no barrier orders.
  kBarrier,        // A barrier that not all threads of the block reach.
  kPageable,       // An operation of a stream that touches host memory that is not pinned.
  kAfterError,     // A call on a device or communicator that had reported its loss or abort.
  kMisuse,         // A call where it may not stand.
  kStuck,          // A wait that nothing can end.
};

struct Report {
  Fault fault;
  std::string text;
  std::string first;   // The earlier operation, if there are two.
  std::string second;  // The operation that was caught.
};

class Reports {
 public:
  void add(Fault fault, std::string first, std::string second, std::string text) {
    const bool known = std::any_of(list_.begin(), list_.end(), [&](const Report& report) {
      return report.fault == fault && report.first == first && report.second == second;
    });
    if (known) return;
    if (!first.empty()) text += "; the other is \"" + first + "\"";
    list_.push_back({fault, "\"" + second + "\" " + text, std::move(first), std::move(second)});
  }
  const std::vector<Report>& list() const { return list_; }

 private:
  std::vector<Report> list_;
};

}  // namespace gangway::emulated
