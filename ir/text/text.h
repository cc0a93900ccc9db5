// The readable text form, and its inverse: parse(print(x)) is the same graph.
//
//   func @loss(%0 "x": f32[8, 16] {data: shard(0)}) mesh {data: 4} {
//     %1: f32[8, 16] = mul %0, %0  // model.cc:14 in layers.0
//     %2: f32[] = reduce_sum %1 {axes = [0, 1]}
//     return %2 "loss"
//   }
//
// Placements behind a parameter are the user's; `over {data: shard(0)}` behind a type is the
// propagated sharding. `region 1 { ... }` holds the nodes of a rematerialisation region, `body func
// @f(...) { ... }` follows a fusion. The bodies of scans and calls are numbered and stand before
// the functions that name them, each behind those that it names itself:
//
//   body 0 func @layer(%0 "carry": f32[8, 16], %1 "slice": f32[16, 16]) {
//     %2: f32[8, 16] = dot %0, %1 {...}
//     return %2 "carry"
//   }
//   func @model(%0 "x": f32[8, 16], %1 "w": f32[12, 16, 16]) {
//     %2: f32[8, 16] = scan %0, %1 {carries = 1, invariants = 0, length = 12} body 0
//     return %2 "y"
//   }
//
// A program lists slices, bodies, functions and nodes:
//
//   program @train_step finite "loss" {
//     slice "main" mesh {data: 4}
//     func @init.0() mesh {data: 4} { ... }
//     func @train_step(...) mesh {data: 4} { ... }
//     %0 = state "w" @init.0 -> f32[16]
//     %1 = source "tokens" -> i32[8, 64] {data: shard(0)} with {kind = "text"}
//     %2 = call "main" @train_step (%0, %1) -> f32[], f32[16] updates {%0: 1}
//     %3 = output "loss" (%2.0) -> f32[]
//   }
//
// Behind `finite` may stand what it chooses of ir/graph/numerics.h: `deterministic false`,
// `allow_tf32 true`.
//
// Values and nodes may carry any numbers in a text that is parsed; attributes that have a default
// may be left out. Comments are not read: a parsed node's location is its line of the text.
//
// Threads: pure functions.
// Errors: parse throws kInvalid with line, column, what was expected and got ("at model.gw:3:12");
// what it returns is verified.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/graph/program.h"

namespace gangway {

struct PrintOptions {
  bool locations = true;  // Trailing comments with the user's line.
  // Selects the nodes of functions that are printed; null: all. With a selection, functions without
  // such a node are left out, and the text can't be parsed.
  std::function<bool(const Node&)> shows = {};
};
std::string print(const Function& function, PrintOptions options = {});
std::string print(const Program& program, PrintOptions options = {});
// `file` is what messages and locations call the text.
Function parse_function(std::string_view text, const std::string& file = "text");
Program parse_program(std::string_view text, const std::string& file = "text");

}  // namespace gangway
