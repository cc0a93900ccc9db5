// Helpers of the op rows' type rules: checks that speak in the grammar of runtime/base/error.h.
//
// Every attribute may come from an untrusted file: sizes are checked before any arithmetic.
#pragma once

#include <string_view>
#include <vector>

#include "ir/op_table/op.h"
#include "runtime/base/error.h"

namespace gangway::internal {

template <class... Parts>
[[noreturn]] void refuse(const OpCall& call, const Parts&... parts) {
  throw Error(ErrorKind::kInvalid, cat(to_string(call.op), ": ", parts...));
}

// Refuses the call unless the condition holds. The message is built only on refusal: type rules run
// often, and seldom refuse.
#define GW_NEED(call, condition, ...)                 \
  do {                                                \
    if (!(condition)) [[unlikely]]                    \
      ::gangway::internal::refuse(call, __VA_ARGS__); \
  } while (false)

// Each names input `i` as the user knows it: "lhs", "weight".
void need_float(const OpCall& call, size_t i, std::string_view name);
void need_number(const OpCall& call, size_t i, std::string_view name);  // Anything but bool.
void need_dtype(const OpCall& call, size_t i, std::string_view name, DType dtype);
void need_rank(const OpCall& call, size_t i, std::string_view name, int rank);
void need_rank_min(const OpCall& call, size_t i, std::string_view name, int rank);
void need_type(const OpCall& call, size_t i, std::string_view name, const Type& type);
// Inputs i and j have the same type, or the same element type.
void need_same(const OpCall& call, size_t i, std::string_view a, size_t j, std::string_view b);
void need_same_dtype(const OpCall& call, size_t i, std::string_view a, size_t j,
                     std::string_view b);

// An attribute that names a dimension of `type`; several distinct ones in ascending order.
int need_axis(const OpCall& call, std::string_view attr, const Type& type);
std::vector<int64_t> need_axes(const OpCall& call, std::string_view attr, const Type& type);
// An attribute that holds sizes within the bounds of a type.
Dims need_dims(const OpCall& call, std::string_view attr, DType dtype);
// An attribute that is the value of elements of this type.
void need_number_of(const OpCall& call, std::string_view attr, const Type& of);
// `counter` has the numbers 0 to count - 1, each apart from its neighbours. `what` says what is
// counted: "dim 0", "slots of a group".
void need_counts(const OpCall& call, DType counter, int64_t count, std::string_view what);
int64_t need_between(const OpCall& call, std::string_view attr, int64_t low, int64_t high);

// f64 for f64, else f32: the type of losses and of softmax internals.
inline DType accumulator(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
Dims without_last(const Dims& dims);
Dims join(Dims head, const Dims& tail);

// Type rules shared by many rows.
std::vector<Type> same_as_first(const OpCall& call);  // Any type; one result of the first's type.

}  // namespace gangway::internal
