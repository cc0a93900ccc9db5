// How many files and connections this process may have open at once. Systems start processes with
// a low soft limit, for programs that use select(), and a much higher one up to which each may go.
//
// Threads: any.
#pragma once

#include <cstdint>

namespace gangway {

struct DescriptorLimit {
  uint64_t soft = 0, hard = 0;  // The soft one counts.
};

DescriptorLimit descriptor_limit();
// Raises the soft limit as far as the system allows, at most to kDescriptorsMax, and returns the
// limits that now hold. For main().
inline constexpr uint64_t kDescriptorsMax = uint64_t{1} << 20;
DescriptorLimit raise_descriptor_limit();

}  // namespace gangway
