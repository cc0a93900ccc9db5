// Helpers of the implementations of ir/build/ops.h: operands of one shape, axes that count from the
// end.
#pragma once

#include <utility>
#include <vector>

#include "ir/build/ops.h"

namespace gangway::internal {

// A negative axis counts from the end. kInvalid when out of range.
int64_t axis_of(Value x, int64_t axis, std::string_view op, Loc loc);
std::vector<int64_t> axes_of(Value x, std::vector<int64_t> axes, std::string_view op, Loc loc);

// The line of a binary op: where its first operand was converted.
Loc loc_of(const Operand& a, const Operand& b);

// Numbers become constants of the other's type; shapes are broadcast as NumPy does.
std::pair<Value, Value> operands(Op op, const Operand& a, const Operand& b, Loc loc);
Value binary(Op op, const Operand& a, const Operand& b);

// The common shape of two, or kInvalid naming the op and both.
Dims broadcast_dims(Op op, const Type& a, const Type& b, Loc loc);

[[noreturn]] void refuse_at(Loc loc, std::string message);

}  // namespace gangway::internal
