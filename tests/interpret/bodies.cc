#include "tests/interpret/bodies.h"

#include <algorithm>

#include "ir/graph/bodies.h"

namespace gangway::internal {
namespace {

// Row `at` of a stacked tensor.
Literal row_of(const Literal& stacked, int64_t at) {
  Type type = stacked.type;
  type.dims.erase(type.dims.begin());
  const int64_t size = type.elements();
  const auto begin = stacked.values.begin() + at * size;
  return {type, {begin, begin + size}};
}

void set_row(Literal& stacked, int64_t at, const Literal& row) {
  const auto size = static_cast<int64_t>(row.values.size());
  std::ranges::copy(row.values, stacked.values.begin() + at * size);
}

}  // namespace

OfDevices run_scan(const OpCall& call, const OfDevices& operands, const RunBody& run) {
  const ScanLayout scan(call.attrs);
  const std::vector<Type> types = row(call.op).type_rule(call);
  OfDevices results(operands.size());
  for (size_t d = 0; d < operands.size(); ++d) {
    for (size_t r = 0; r < types.size(); ++r)
      results[d].push_back(r < scan.carries ? operands[d][r] : filled(types[r], 0));
  }
  for (int64_t i = 0; i < scan.length; ++i) {
    const bool is_last = i + 1 == scan.length;
    const int64_t at = scan.reverse ? scan.length - 1 - i : i;
    const int64_t next = is_last ? at : scan.reverse ? at - 1 : at + 1;
    OfDevices arguments = operands;
    for (size_t d = 0; d < operands.size(); ++d) {
      for (size_t p = 0; p < operands[d].size(); ++p) {
        if (p < scan.carries) arguments[d][p] = results[d][p];
        if (p < scan.first_stacked()) continue;
        const bool shows_next = scan.shows_next(p, operands[d].size());
        arguments[d][p] = row_of(operands[d][p], shows_next ? next : at);
      }
    }
    const OfDevices given =
        run(arguments, is_last ? ahead_nodes(*call.body, scan) : std::vector<bool>());
    for (size_t d = 0; d < operands.size(); ++d) {
      for (size_t r = 0; r < types.size(); ++r) {
        if (r < scan.carries) {
          results[d][r] = given[d][r];
        } else {
          set_row(results[d][r], at, given[d][r]);
        }
      }
    }
  }
  return results;
}

}  // namespace gangway::internal
