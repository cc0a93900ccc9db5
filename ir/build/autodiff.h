// Reverse-mode differentiation in the global view, before partitioning.
//
//   auto [loss, grads] = value_and_grad(loss_fn)(params, tokens);        // grads has the shape of
//   params auto [out, grads] = value_and_grad_aux(loss_fn)(params, tokens);     // loss_fn returns
//   {loss, aux tree}
//
// Each node's rule comes from its op row. Values made in a rematerialisation region (`remat`) are
// recomputed in the backward pass instead of kept (Chen et al. 2016, "Training Deep Nets with
// Sublinear Memory Cost").
//
// Errors: kInvalid when the loss is not a float scalar; when a path to a wanted leaf passes an op
// without a gradient (named with its line); through `if`/`while`. Threads: one thread, the
// builder's.
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
