// Result<T>: a value or an Error, for places where an error must not be thrown (device threads, KJ
// callbacks).
//
// Threads: a value.
// Errors: value() and take() throw the Error it holds.
//
// Example:
//   Result<int> r = 7;  // Or an Error.
//   if (!r.ok()) std::exit(report(r.error()));
//   int value = r.value();
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/base/error.h"

namespace gangway {

struct Unit {
  bool operator==(const Unit&) const = default;
};

template <class T>
class [[nodiscard]] Result {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, Unit, T>;

  Result()
    requires std::is_void_v<T>
  = default;
  Result(Value value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const Value& value() const {
    if (!ok()) throw std::get<1>(held_);
    return std::get<0>(held_);
  }
  Value take() {
    if (!ok()) throw std::get<1>(held_);
    return std::move(std::get<0>(held_));
  }
  const Error& error() const { return std::get<1>(held_); }

 private:
  std::variant<Value, Error> held_;
};

}  // namespace gangway
