// The readable text form, and its inverse: parse(print(x)) is the same graph.
//
//   func @loss(%0 "x": f32[8, 16] {data: shard(0)}) -> ("loss" %3) mesh {data: 4} {
//     %1: f32[8, 16] = mul %0, %0  // model.cc:14
//     %2: f32[] = reduce_sum %1 {axes = [0, 1]}
//     ...
//   }
//
// Threads: pure functions. Errors: parse throws kInvalid with line, column, what was expected and
// got; what it returns is verified.
#pragma once

#include <string>
#include <string_view>

#include "ir/program.h"

namespace gangway {

struct PrintOptions {
  bool locations = true;  // Trailing comments with the user's line.
};
std::string print(const Function& function, PrintOptions options = {});
std::string print(const Program& program, PrintOptions options = {});
Function parse_function(std::string_view text);
Program parse_program(std::string_view text);

}  // namespace gangway
