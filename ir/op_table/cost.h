// Cost rules of the op rows: floating-point operations and bytes moved, as the cost model sees one
// execution.
#pragma once

#include "ir/op_table/op.h"

namespace gangway::internal {

// Every input is read once and every result written once.
double bytes_moved(const OpCall& call);
double result_elements(const OpCall& call);

// `Flops` for each element of the first result, or of the first input.
template <int Flops>
Cost per_result(const OpCall& call) {
  return {Flops * result_elements(call), bytes_moved(call)};
}
template <int Flops>
Cost per_input(const OpCall& call) {
  return {Flops * static_cast<double>(call.inputs[0].elements()), bytes_moved(call)};
}

}  // namespace gangway::internal
