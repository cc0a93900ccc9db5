// DeviceTime: how much device time was used over the last second.
//
// Threads: a value on the reactor's thread. Cost: O(1).
#pragma once

#include <array>
#include <cstdint>

namespace gangway {

class DeviceTime {
 public:
  static constexpr int64_t kWindowNs = 1'000'000'000;

  void add(int64_t now_ns, int64_t ns) {
    Part& part = parts_[static_cast<size_t>(now_ns / kPartNs) % kParts];
    if (part.from_ns != begin(now_ns)) part = {begin(now_ns), 0};
    part.ns += ns;
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
