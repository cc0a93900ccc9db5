// Comparisons that Cap'n Proto 0.9's headers lack in C++20: include it before any of them.
//
// KJ compares a literal with a StringPtr only the other way round. Compilers that rewrite reversed
// comparisons strictly (clang 16 and later) refuse <capnp/blob.h> without these.
#pragma once

#include <kj/string.h>

namespace kj {

inline bool operator==(const char* a, const StringPtr& b) { return StringPtr(a) == b; }
inline bool operator!=(const char* a, const StringPtr& b) { return !(StringPtr(a) == b); }

}  // namespace kj
