// References of the ops of local functions that look at the mesh: the results that the members of
// one group compute together, and the bytes that each of them sends.
//
// A reference takes every value that lies on another member through GroupCall::read(), which counts
// its bytes for the member that has it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/function.h"
#include "tests/interpret/interpret.h"
#include "tests/interpret/reference.h"

namespace gangway::internal {

// One node on all devices that meet along its axes, by member (ir/types/axis_list.h).
struct GroupCall {
  const Mesh& mesh;
  const OpCall& call;
  const std::vector<int64_t>& devices;          // [member]
  std::vector<std::vector<const Literal*>> in;  // [member][operand]
  std::vector<std::vector<Literal>> out;        // [member][result], with zeros as values
  std::vector<int64_t> sent;                    // [member], in bytes
  InterpretOptions options;

  size_t members() const { return devices.size(); }
  const Attrs& attrs() const { return call.attrs; }
  const Dims& dims(size_t operand = 0) const { return call.inputs[operand].dims; }
  // Element `at` of an operand of member `from`, as member `to` needs it.
  double read(size_t to, size_t from, size_t operand, size_t at) {
    count(to, from, call.inputs[operand].dtype);
    return in[from][operand]->values[at];
  }
  void count(size_t to, size_t from, DType dtype) {
    if (to != from) sent[from] += static_cast<int64_t>(size_of(dtype));
  }
};

using GroupReference = void (*)(GroupCall&);
// The reference of an op. Null if the op needs no mesh.
GroupReference group_reference_of(Op op);

}  // namespace gangway::internal
