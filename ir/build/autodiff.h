// Reverse-mode differentiation in the global view, before partitioning.
//
// Example:
//   auto mean_square = [](const Tree& p, Value in) { return mean(square(dot(in, p["w"]))); };
//   auto [loss, grads] = value_and_grad(mean_square)(params, x);  // grads["w"] is d loss / d w.
//
// value_and_grad_aux takes a function that returns {loss, whatever else is wanted of the forward
// pass}:
//
// Example:
//   auto with_outputs = [](const Tree& p, Value in) {
//     Value out = dot(in, p["w"]);
//     return std::pair(mean(square(out)), out);
//   };
//   auto [result, grads] = value_and_grad_aux(with_outputs)(params, x);
//   auto [loss, out] = result;
//
// Each node's rule comes from its op row. Values computed in a rematerialisation region (`remat`)
// are computed again in the backward pass instead of being kept (Chen et al. 2016, "Training Deep
// Nets with Sublinear Memory Cost").
//
// Errors: kInvalid when the loss is not a float scalar; when a path to a wanted leaf passes an op
// without a gradient (named with its line); through `if`/`while`.
// Threads: one thread, the builder's.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "ir/build/tree.h"
#include "ir/build/value.h"

namespace gangway {

// d loss / d x for each x of `wrt`, as values of the same builder; zeros where the loss does not
// depend on x.
std::vector<Value> gradients(Value loss, const std::vector<Value>& wrt, Loc loc = Loc::current());
inline std::vector<Value> gradients(Value loss, std::initializer_list<Value> wrt,
                                    Loc loc = Loc::current()) {
  return gradients(loss, std::vector<Value>(wrt), loc);
}
Tree gradients(Value loss, const Tree& wrt, Loc loc = Loc::current());

// f(params, args...) -> Value; gives (params, args...) -> {loss, gradients}.
template <class F>
auto value_and_grad(F f, Loc loc = Loc::current()) {
  return [f, loc](const Tree& params, auto&&... args) -> std::pair<Value, Tree> {
    Value loss = f(params, std::forward<decltype(args)>(args)...);
    return {loss, gradients(loss, params, loc)};
  };
}

// f(params, args...) -> {loss, aux}; gives (params, args...) -> {{loss, aux}, gradients}.
template <class F>
auto value_and_grad_aux(F f, Loc loc = Loc::current()) {
  return [f, loc](const Tree& params, auto&&... args) {
    auto result = f(params, std::forward<decltype(args)>(args)...);
    Tree grads = gradients(result.first, params, loc);
    return std::make_pair(std::move(result), std::move(grads));
  };
}

// Runs f with every node in one rematerialisation region of `builder`.
template <class F>
auto remat(Builder& builder, F&& f);

}  // namespace gangway

#include "ir/build/builder.h"

namespace gangway {

template <class F>
auto remat(Builder& builder, F&& f) {
  Builder::Region region(builder);
  return f();
}

}  // namespace gangway
