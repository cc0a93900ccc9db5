// DataSource: a data pipeline as a program's `source` node names it; fills the parts of the devices
// that ask, whichever dimensions are cut. A batch is the same on every mesh.
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
#include "ir/types/box.h"
#include "ir/types/type.h"

namespace gangway {

class TrustedFiles;

class DataSource {
 public:
  virtual ~DataSource() = default;
  // The elements of `part` of batch `position` of the global tensor, dense. Throws kInvalid.
  virtual void fill(uint64_t position, const Box& part, std::byte* out) const = 0;
};

// `type`: global. `readable`: files lie below its folders, or are not read; null: any file that
// this process can read will do.
std::unique_ptr<const DataSource> make_source(const Attrs& attrs, const Type& type,
                                              const TrustedFiles* readable = nullptr);

}  // namespace gangway
