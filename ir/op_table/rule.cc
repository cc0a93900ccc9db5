#include "ir/op_table/rule.h"

#include <limits>
#include <optional>
#include <string>

#include "ir/types/number.h"

namespace gangway::internal {

void need_float(const OpCall& call, size_t i, std::string_view name) {
  GW_NEED(call, is_float(call.inputs[i].dtype), name,
          " must be of a float type: expected bf16, f32 or f64, got ", to_string(call.inputs[i]));
}

void need_number(const OpCall& call, size_t i, std::string_view name) {
  GW_NEED(call, call.inputs[i].dtype != DType::kBool, name, " must hold numbers: got ",
          to_string(call.inputs[i]));
}

void need_dtype(const OpCall& call, size_t i, std::string_view name, DType dtype) {
  GW_NEED(call, call.inputs[i].dtype == dtype, name, " has the wrong element type: expected ",
          to_string(dtype), ", got ", to_string(call.inputs[i]));
}

void need_rank(const OpCall& call, size_t i, std::string_view name, int rank) {
  GW_NEED(call, call.inputs[i].rank() == rank, name, " has the wrong rank: expected ", rank,
          " dimensions, got ", to_string(call.inputs[i]));
}

void need_rank_min(const OpCall& call, size_t i, std::string_view name, int rank) {
  GW_NEED(call, call.inputs[i].rank() >= rank, name, " has the wrong rank: expected at least ",
          rank, rank == 1 ? " dimension, got " : " dimensions, got ", to_string(call.inputs[i]));
}

void need_type(const OpCall& call, size_t i, std::string_view name, const Type& type) {
  GW_NEED(call, call.inputs[i] == type, name, " has the wrong type: expected ", to_string(type),
          ", got ", to_string(call.inputs[i]),
          i > 0 ? cat(", beside a first operand ", to_string(call.inputs[0])) : "");
}

void need_same(const OpCall& call, size_t i, std::string_view a, size_t j, std::string_view b) {
  need_same_dtype(call, i, a, j, b);
  GW_NEED(call, call.inputs[i] == call.inputs[j], "shapes differ: ", a, " is ",
          to_string(call.inputs[i]), ", ", b, " is ", to_string(call.inputs[j]));
}

void need_same_dtype(const OpCall& call, size_t i, std::string_view a, size_t j,
                     std::string_view b) {
  GW_NEED(call, call.inputs[i].dtype == call.inputs[j].dtype, "element types differ: ", a, " is ",
          to_string(call.inputs[i]), ", ", b, " is ", to_string(call.inputs[j]),
          "; convert() one of them");
}

int need_axis(const OpCall& call, std::string_view attr, const Type& type) {
  int64_t axis = call.attrs.integer(attr);
  GW_NEED(call, axis >= 0 && axis < type.rank(), attr, " is out of range: got ", axis, " for ",
          to_string(type));
  return static_cast<int>(axis);
}

std::vector<int64_t> need_axes(const OpCall& call, std::string_view attr, const Type& type) {
  const std::vector<int64_t>& axes = call.attrs.ints(attr);
  int64_t above = -1;
  for (int64_t axis : axes) {
    GW_NEED(call, axis > above && axis < type.rank(), attr, " must be distinct dimensions of ",
            to_string(type), " in ascending order: got ", to_string(axes));
    above = axis;
  }
  return axes;
}

Dims need_dims(const OpCall& call, std::string_view attr, DType dtype) {
  const Dims& dims = call.attrs.ints(attr);
  GW_NEED(call, is_valid({dtype, dims}), attr, " is not a shape: expected at most ", kRankMax,
          " sizes of at least 0 and at most ", kElementsMax, " elements, got ", to_string(dims));
  return dims;
}

void need_number_of(const OpCall& call, std::string_view attr, const Type& of) {
  const std::optional<std::string> mistake = number_mistake(of.dtype, call.attrs.real(attr));
  GW_NEED(call, !mistake, attr, " ", *mistake,
          "; numbers take the type of the other operand, here ", to_string(of),
          ": convert() that first");
}

void need_counts(const OpCall& call, DType counter, int64_t count, std::string_view what) {
  int64_t most = 2;  // bool
  switch (counter) {
    case DType::kBool: break;
    case DType::kI32: most = int64_t{1} << 31; break;
    case DType::kBF16: most = (int64_t{1} << 8) + 1; break;
    case DType::kF32: most = (int64_t{1} << std::numeric_limits<float>::digits) + 1; break;
    case DType::kF64: most = (int64_t{1} << std::numeric_limits<double>::digits) + 1; break;
  }
  GW_NEED(call, count <= most, what, " is too long for ", to_string(counter),
          " to count its positions: expected at most ", most, ", got ", count);
}

int64_t need_between(const OpCall& call, std::string_view attr, int64_t low, int64_t high) {
  int64_t value = call.attrs.integer(attr);
  GW_NEED(call, value >= low && value <= high, attr, " is out of range: expected ", low, " to ",
          high, ", got ", value);
  return value;
}

Dims without_last(const Dims& dims) { return Dims(dims.begin(), dims.end() - 1); }

Dims join(Dims head, const Dims& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

std::vector<Type> same_as_first(const OpCall& call) { return {call.inputs[0]}; }

}  // namespace gangway::internal
