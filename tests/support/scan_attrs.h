// The attributes of a scan, for tests that put nodes together by hand.
#pragma once

#include <cstdint>

#include "ir/types/attrs.h"

namespace gangway::tests {

// ScanLayout (ir/graph/bodies.h) defines each of them.
struct ScanOf {
  int64_t length = 1;
  int64_t carries = 1;
  int64_t invariants = 0;
  bool reverse = false;
  int64_t ahead = 0;
  int64_t next = 0;
};

inline Attrs scan_attrs(const ScanOf& scan) {
  return {{"length", scan.length},   {"carries", scan.carries}, {"invariants", scan.invariants},
          {"reverse", scan.reverse}, {"ahead", scan.ahead},     {"next", scan.next}};
}

}  // namespace gangway::tests
