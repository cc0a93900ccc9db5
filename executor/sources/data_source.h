// DataSource: a data pipeline that a program's `source` node names. It fills the parts of the batch
// that devices ask for, whichever dimensions are cut. A batch is the same on every mesh.
//
// Kinds: "text" - shuffled windows of the text at `path`, or with `heldout` its last part in order
// (data/); "counter" - element i of batch p is p * elements + i, for tests.
// Threads: fill() from any thread.
// Errors: read_source() and make_source() throw kInvalid naming the attribute or the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "data/windows.h"
#include "executor/sources/text_store.h"
#include "ir/types/attrs.h"
#include "ir/types/box.h"
#include "ir/types/type.h"

namespace gangway {

class DataSource {
 public:
  virtual ~DataSource() = default;
  // The elements of `part` of batch `position` of the global tensor, dense. Throws kInvalid.
  virtual void fill(uint64_t position, const Box& part, std::byte* out) const = 0;
};

// The verified request of a source node.
struct DataSourceSpec {
  Type type;         // Global.
  std::string path;  // Path of its text; empty: it reads none.
  WindowOptions windows;
  bool heldout = false;
};
DataSourceSpec read_source(const Attrs& attrs, const Type& type);

// `text`: contents of the path; null if the source reads none.
std::unique_ptr<const DataSource> make_source(const DataSourceSpec& source, TextPtr text);

}  // namespace gangway
