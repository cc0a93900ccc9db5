// AreaList: the areas of one piece of memory by name, so that a peer finds its part without knowing
// the rest.
//
//   u64 magic | u64 count | count * { u64 key, u64 offset, u64 bytes } | areas
//
// Each area is aligned to 64 bytes and zero at first. A host offers one such memory for a plan; its
// peers open it and look their areas up. Sizes that a peer claims are checked against the memory
// before anything is touched.
//
// Threads: written before the memory is offered, read-only afterwards.
// Errors: find_area() throws kUnavailable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gangway {

class AreaList {
 public:
  // Equal names on all hosts: "gate 2.1", "inbox 7.2".
  void add(const std::string& name, int64_t bytes);
  // Bytes of all areas and their directory. With nothing added the list is empty but valid.
  int64_t bytes() const;
  // Writes the directory into memory of bytes() that is zero.
  void write(std::byte* memory) const;

 private:
  struct Area {
    uint64_t key, offset, bytes;
  };
  std::vector<Area> areas_;
  uint64_t end_ = 0;
};

// Offset in `memory` of the area of that name, which has at least `bytes` bytes.
uint64_t find_area(std::span<const std::byte> memory, const std::string& name, int64_t bytes);

}  // namespace gangway
