// Value: a handle to one SSA value of the function that a Builder is tracing. Operators add nodes.
//
// A model reads like its equations: `x + gelu(dot(n, w))`. Every free op function and operator
// takes the user's line through a defaulted Loc. Mixing values of two builders, or using a value
// after its function was built or its builder is gone, is an error. C++ would compare or test the
// handle, not the elements, so a value is neither comparable nor a condition: `x == y` and `if
// (lt(x, 0))` do not compile. eq() compares elements when the program runs, and where() chooses by
// them.
//
// Threads: not thread-safe; a function is traced by one thread.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>

#include "ir/graph/function.h"
#include "runtime/base/loc.h"

namespace gangway {

class Builder;

namespace internal {
// A function while it is traced; its values share this record, which tells them when tracing has
// ended.
struct Trace {
  explicit Trace(Builder* in) : builder(in) {}
  Builder* builder;      // Null: the function is built, or its builder is gone.
  std::string function;  // Name of the function, once it has ended.
};
}  // namespace internal

class Value {
 public:
  Value() = default;
  Value(Builder* builder, ValueId id);

  bool empty() const { return trace_ == nullptr; }
  // Whether both name one value of one function; nothing is known of their elements.
  bool is(const Value& other) const { return trace_ == other.trace_ && id_ == other.id_; }
  Builder& builder() const;  // kInvalid when empty, and once its function is built.
  ValueId id() const { return id_; }
  Type type() const;  // A copy: the function's own list moves as it grows.
  DType dtype() const { return type().dtype; }
  int rank() const { return type().rank(); }
  // Size of a dimension; negative counts from the end.
  int64_t dim(int index) const;

 private:
  std::shared_ptr<const internal::Trace> trace_;
  ValueId id_ = kNone;
};

// An operand: a value, or a number that takes the other operand's type and that this type has. Its
// conversion records the user's line. A bool is no number: it would come from a comparison in C++.
class Operand {
 public:
  Operand(Value operand, Loc at = Loc::current()) : value(operand), loc(at) {}
  // A leaf of a tree: x * params["w"].
  template <class Leaf>
    requires(!std::is_same_v<Leaf, Value> && !std::is_same_v<Leaf, Operand> &&
             !std::is_arithmetic_v<Leaf> && std::convertible_to<const Leaf&, const Value&>)
  Operand(const Leaf& leaf, Loc at = Loc::current())
      : value(static_cast<const Value&>(leaf)), loc(at) {}
  template <class Number>
    requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>)
  Operand(Number literal, Loc at = Loc::current())
      : number(static_cast<double>(literal)), loc(at) {}

  Value value;  // Empty: `number` is meant.
  double number = 0;
  Loc loc;
};

}  // namespace gangway
