// Included before everything else where clang compiles Cap'n Proto 0.9.2's headers: in C++20 a
// newer clang does not find the comparison that blob.h relies on. Harmless where it is not needed.
#pragma once

#include <kj/string.h>

namespace kj {

inline bool operator==(const char* a, const StringPtr& b) { return StringPtr(a) == b; }
inline bool operator!=(const char* a, const StringPtr& b) { return !(StringPtr(a) == b); }

}  // namespace kj
