// DataSource: a data pipeline as a program's `source` node names it; fills the rows of the devices
// that ask.
//
// Kinds: "text" - shuffled windows of the text at `path`, or with `heldout` its last part in order
// (data/); "counter" - element i of batch p is p * elements + i, for tests.
// Threads: fill() from any thread.
// Errors: make_source throws kInvalid naming the attribute or the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ir/types/attrs.h"
#include "ir/types/type.h"

namespace gangway {

class DataSource {
 public:
  virtual ~DataSource() = default;
  // Rows [first, first + count) of batch `position` of the global tensor, dense. Throws kInvalid.
  virtual void fill(uint64_t position, int64_t first, int64_t count, std::byte* out) const = 0;
};

// `type`: global.
std::unique_ptr<const DataSource> make_source(const Attrs& attrs, const Type& type);

}  // namespace gangway
