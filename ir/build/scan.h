// scan and call: functions that a graph names instead of holding a copy for each use, so that a
// model of many equal layers is as small as one of them.
//
// scan() runs its body `length` times. The body sees the carries of the previous iteration, the
// invariants whole, and a slice of each stacked tensor (without its first dimension). It returns
// the next carries, of the same shape and types, and tensors that the scan's result stacks, one row
// for each iteration. A tree of values may stand wherever a value may.
//
// Example (a stack of layers):
//   // params["w"]: f32[12, dim, dim]; x: f32[batch, dim]
//   Value y = scan(x.builder(), {.length = 12, .carries = x, .stacked = params, .name = "layer"},
//                  [](const ScanStep& at) -> Scanned {
//                    Value h = tanh(dot(at.carries, at.slices["w"]));
//                    return {.carries = h};
//                  }).carries;
//
// Both are differentiable. The values that a gradient needs are kept for all iterations;
// remat(at.builder, ...) around the body's work keeps the carries alone, and the backward pass
// computes each iteration again.
//
// The body is traced once, by a builder of its own (at.builder): it can use no values of the
// surrounding function but those in ScanOperands.
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
  std::string name = "scan";  // Name of the body, for people.
};

// The body's view of an iteration; the trees have the operands' shapes.
struct ScanStep {
  Builder& builder;
  Tree carries;
  Tree invariants;
  Tree slices;
};

// The body's results of an iteration, and the scan's results: the last carries, and stacks [length,
// ...].
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
