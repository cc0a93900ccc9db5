// DeviceTime: time for which the devices of a slice were busy over the last second.
//
// Reports come late, and several at once: work that is reported now ended now at the latest. It
// counts in the time before that which no other report has taken, so that no second has more than
// it is long.
//
// Threads: a value on the reactor's thread. Cost: O(1).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gangway {

class DeviceTime {
 public:
  static constexpr int64_t kWindowNs = 1'000'000'000;

  void add(int64_t now_ns, int64_t ns) {
    const int64_t oldest_ns = begin(now_ns) - kWindowNs;
    for (int64_t from_ns = begin(now_ns); ns > 0 && from_ns >= oldest_ns; from_ns -= kPartNs) {
      Part& part = parts_[static_cast<size_t>(from_ns / kPartNs + kParts) % kParts];
      if (part.from_ns != from_ns) part = {from_ns, 0};
      const int64_t room_ns = std::min(now_ns - from_ns, kPartNs) - part.ns;
      const int64_t taken_ns = std::clamp<int64_t>(room_ns, 0, ns);
      part.ns += taken_ns;
      ns -= taken_ns;
    }
  }
  // The oldest part counts as far as it lies within the second.
  int64_t last_second_ns(int64_t now_ns) const {
    const int64_t oldest_ns = begin(now_ns) - kWindowNs;
    const double inside =
        1.0 - static_cast<double>(now_ns - begin(now_ns)) / static_cast<double>(kPartNs);
    int64_t sum = 0;
    for (const Part& part : parts_) {
      if (part.from_ns > oldest_ns) sum += part.ns;
      if (part.from_ns == oldest_ns)
        sum += static_cast<int64_t>(static_cast<double>(part.ns) * inside);
    }
    return sum;
  }

 private:
  static constexpr int64_t kPartNs = kWindowNs / 10, kParts = 11;
  struct Part {
    int64_t from_ns = -kWindowNs;
    int64_t ns = 0;
  };
  static int64_t begin(int64_t now_ns) { return now_ns / kPartNs * kPartNs; }

  std::array<Part, kParts> parts_;
};

}  // namespace gangway
