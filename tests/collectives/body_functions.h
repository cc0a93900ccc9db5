// Local functions whose bodies have collectives, for tests of all kinds of devices.
//
// Threads: pure functions.
#pragma once

#include <memory>
#include <string_view>

#include "ir/text/text.h"
#include "runtime/base/cat.h"

namespace gangway {

inline std::shared_ptr<const Function> body_function(std::string_view text) {
  return std::make_shared<const Function>(parse_function(text, "bodies.gw"));
}

// Five layers over n devices; each sums, gathers and scatters. Rows lie apart at odd places.
inline std::shared_ptr<const Function> layers_on(int64_t n) {
  const std::string mesh = cat("mesh {data: ", n, "}");
  const std::string wide = cat("f32[", 4 * n, "]"), rows = cat("f32[5, ", 4 * n, "]");
  const std::string parts = cat("parts = ", n);
  return body_function(cat(R"(
body 0 local func @layers(%0 "x": f32[4], %1 "bias": f32[4], %2 "w": f32[4]) )",
                           mesh, R"( {
  %3: f32[4] = mul %0, %2
  %4: f32[4] = all_reduce %3 {axes = "data", reduction = "sum"}
  %5: f32[4] = add %4, %1
  %6: )",
                           wide, R"( = all_gather %5 {axes = "data", dim = 0, )", parts,
                           ", size = ", 4 * n, R"(}
  %7: )",
                           wide, R"( = neg %6
  %8: f32[4] = reduce_scatter %7 {axes = "data", dim = 0, )",
                           parts, R"(, reduction = "max"}
  return %8 "x", %6 "rows"
}
local func @f(%0 "x": f32[4], %1 "bias": f32[4], %2 "w": f32[5, 4]) )",
                           mesh, R"( {
  %3: f32[4], %4: )",
                           rows, R"( = scan %0, %1, %2
    {carries = 1, invariants = 1, length = 5, reverse = true} body 0
  %5: f32[4] = all_reduce %3 {axes = "data", reduction = "min"}
  return %5 "y", %4 "rows"
}
)"));
}

// A scan in a scan, a body that three nodes name, groups along one axis and along both.
inline std::shared_ptr<const Function> nested_on_four() {
  return body_function(R"(
body 0 local func @half(%0 "x": f32[3], %1 "k": f32[3]) mesh {data: 2, model: 2} {
  %2: f32[3] = permute %0 {axes = "data,model", to = "model,data", shift = 1}
  %3: f32[3] = sub %2, %1
  %4: f32[3] = all_reduce %3 {axes = "model", reduction = "sum"}
  return %4 "x"
}
body 1 local func @block(%0 "x": f32[3], %1 "k": f32[3], %2 "b": f32[3]) mesh {data: 2, model: 2} {
  %3: f32[3] = all_reduce %0 {axes = "data", reduction = "max"}
  %4: f32[3] = scan %3, %1 {carries = 1, invariants = 1, length = 3} body 0
  %5: f32[3] = call %4, %2 body 0
  %6: f32[3] = neg %5
  return %6 "x", %5 "kept"
}
local func @f(%0 "x": f32[3], %1 "k": f32[3], %2 "b": f32[2, 3]) mesh {data: 2, model: 2} {
  %3: f32[3], %4: f32[2, 3] = scan %0, %1, %2 {carries = 1, invariants = 1, length = 2} body 1
  %5: f32[3] = scan %3, %1 {carries = 1, invariants = 1, length = 4} body 0
  %6: f32[3] = scan %5, %1 {carries = 1, invariants = 1, length = 0} body 0
  return %6 "y", %4 "kept"
}
)");
}

// x and w are rows of two devices; exp(x * w[i]) of a large enough w[i] overflows in iteration i.
inline std::shared_ptr<const Function> overflowing_on_two() {
  return body_function(R"(
body 0 local func @layers(%0 "x": f32[2], %1 "w": f32[2]) mesh {data: 2} {
  %2: f32[2] = mul %0, %1
  %3: f32[2] = exp %2
  %4: f32[2] = all_reduce %3 {axes = "data", reduction = "sum"}
  %5: f32[2] = log %4
  return %5 "x"
}
local func @f(%0 "x": f32[2], %1 "w": f32[3, 2]) mesh {data: 2} {
  %2: f32[2] = scan %0, %1 {carries = 1, invariants = 0, length = 3} body 0
  %3: f32[] = reduce_sum %2 {axes = [0]}
  return %3 "loss"
}
)");
}

// Each of two devices sends its four rows where `sizes` say; each has room for five.
inline std::shared_ptr<const Function> rows_that_must_fit() {
  return body_function(R"(
local func @f(%0 "rows": f32[4, 3], %1 "sizes": i32[2]) mesh {data: 2} {
  %2: f32[5, 3], %3: i32[2] = ragged_all_to_all %0, %1
    {axes = "data", bound = 5, must_fit = true, parts = 2}
  return %2 "got", %3 "received"
}
)");
}

}  // namespace gangway
