// RowCopies: rows of bytes that are copied to another place, in equal steps on either side.
//
//   from:  row 0 | gap | row 1 | gap | row 2        from_step: from the begin of a row to the next
//   to:    row 0 | row 1 | row 2                    to_step: the same; here the bytes of a row
//
// They are one operation of a device, like cudaMemcpy2DAsync: a part of a tensor, such as the
// queries that lie side by side with keys and values, has as many rows as the tensor, and an
// operation for each of them would take longer than the bytes.
//
// Invariants: rows do not overlap, so each step is at least `bytes`.
// Threads: a value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gangway {

struct RowCopies {
  std::byte* to = nullptr;
  int64_t to_step = 0;
  const std::byte* from = nullptr;
  int64_t from_step = 0;
  int64_t bytes = 0;  // Bytes of one row.
  int64_t rows = 0;

  // body(to, from) for each row.
  template <class Body>
  void for_each(Body body) const {
    for (int64_t row = 0; row < rows; ++row) body(to + row * to_step, from + row * from_step);
  }
};

}  // namespace gangway
