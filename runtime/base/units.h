// Sizes and durations as people read them: "1.5 KiB", "12.3 ms".
#pragma once

#include <cstdint>
#include <string>

namespace gangway {

// Powers of 1024: "17 B", "1.5 KiB", "3.0 GiB".
std::string format_bytes(uint64_t bytes);

// "850 ns", "12.3 us", "1.25 s", "3 min 20 s", "2 h 05 min"; a minus sign for negative ones.
std::string format_duration_ns(int64_t ns);

// Powers of 1000: "950", "12.3 k", "1.10 M".
std::string format_count(double count);

}  // namespace gangway
