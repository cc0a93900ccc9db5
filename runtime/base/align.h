// Rounding up: how many units hold n, and what they come to. `unit` is at least 1.
//
// Threads: pure. Errors: none; n is not negative and leaves room for one unit.
//
//   ceil_div(10, 4) == 3   align_up(10, 4) == 12   align_up(12, 4) == 12   align_up(0, 4) == 0
#pragma once

#include <concepts>
#include <type_traits>

namespace gangway {

template <std::integral T>
constexpr T ceil_div(T n, std::type_identity_t<T> unit) {
  return (n + unit - 1) / unit;
}

template <std::integral T>
constexpr T align_up(T n, std::type_identity_t<T> unit) {
  return ceil_div(n, unit) * unit;
}

}  // namespace gangway
