// scan and call: functions that a graph names instead of holding a copy for each use, so that a
// model of many equal layers is as small as one of them.
//
// scan() runs its body `length` times. What the body sees: the carries that the iteration before
// gave, the invariants whole, and a slice of each stacked tensor (without its first dimension).
// What it gives: the next carries, of the same shape and types, and tensors of which the result
// holds a stack, one row for each iteration. A tree of values may stand wherever one may.
//
// Example (a stack of layers):
//   // params["w"]: f32[12, dim, dim]; x: f32[batch, dim]
//   Value y = scan(x.builder(), {.length = 12, .carries = x, .stacked = params, .name = "layer"},
//                  [](const ScanStep& at) -> Scanned {
//                    Value h = tanh(dot(at.carries, at.slices["w"]));
//                    return {.carries = h};
//                  }).carries;
//
// Both are differentiable. What a gradient needs of the iterations is kept for all of them;
// remat(at.builder, ...) around the body's work keeps the carries alone, and each iteration is
// computed again when its gradient is.
//
// The body is traced once, by a builder of its own (at.builder): it can use no values of the
// function around it but those that it is given.
//
// Errors: kInvalid with the user's line, as an op's; a carry that changes its type is refused with
// both types.
// Threads: one thread, the builder's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/build/builder.h"
#include "ir/build/tree.h"
#include "ir/build/value.h"

namespace gangway {

struct ScanOperands {
  int64_t length = 0;  // Iterations.
  Tree carries = {};
  Tree invariants = {};
  Tree stacked = {};          // [length, ...] each.
  bool reverse = false;       // The last slices come first; results lie where their slices do.
  std::string name = "scan";  // Of the body, for people.
};

// What the body sees of an iteration; trees of the operands' shapes.
struct ScanStep {
  Builder& builder;
  Tree carries;
  Tree invariants;
  Tree slices;
};

// What the body gives of an iteration, and what the scan gives of all: the last carries, and stacks
// [length, ...].
struct Scanned {
  Tree carries = {};
  Tree stacked = {};
};

Scanned scan(Builder& builder, const ScanOperands& operands,
             const std::function<Scanned(const ScanStep&)>& body, Loc loc = Loc::current());

// The results of a function on these arguments. It is traced with a Builder over the same mesh;
// calls of one object share it.
std::vector<Value> call(Builder& builder, const std::shared_ptr<const Function>& function,
                        const std::vector<Value>& arguments, Loc loc = Loc::current());

}  // namespace gangway
