// SegmentDirectory: the areas of a shared segment by name, so that who opens it finds its part
// without knowing the rest.
//
//   u64 magic | u64 count | count * { u64 key, u64 offset, u64 bytes } | areas
//
// Each area is aligned to 64 bytes and zero at first.
//
// A host creates one segment for a plan; its peers open it and look their areas up. Sizes that a
// peer claims are checked against the segment before anything is touched.
//
// Threads: written before it is offered, read-only afterwards.
// Errors: find() throws kUnavailable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/os/shared_segment.h"

namespace gangway {

class SegmentBuilder {
 public:
  // Equal names on all hosts: "rank 0.data.1", "inbox 7.2".
  void add(const std::string& name, int64_t bytes);
  int64_t bytes() const;
  // Creates the segment and writes its directory. With nothing added it is empty but valid.
  SharedSegment make() const;

 private:
  struct Area {
    uint64_t key, offset, bytes;
  };
  std::vector<Area> areas_;
  uint64_t end_ = 0;
};

// The area of that name, of at least `bytes`.
std::byte* find_area(const SharedSegment& segment, const std::string& name, int64_t bytes);

}  // namespace gangway
