// Routing of tokens to experts: who sits where, moving rows there and back, and the gradients of
// the way back.
//
// A token makes `k` choices; choice j of token t is number t * k + j. In each group choices are
// sorted by expert, stable in their number; each gets a slot. Without a capacity (dropless) there
// are tokens * k slots and experts follow one another; with one there are experts * capacity,
// expert e owns [e * capacity, (e + 1) * capacity), and a choice that finds its expert full is
// dropped. Groups never mix, so a route does not depend on how a batch is spread over devices.
//
//   slot_token i32[groups, slots]      the choice's number t * k + j, or -1: empty
//   token_slot i32[groups, tokens, k]  its slot, or -1: dropped
//   sizes      i32[groups, experts]    rows of each expert: with a capacity always the capacity
//
// An expert outside [0, experts) drops the choice. Values read from a route are checked before they
// are used as an index: a bad one counts as -1. Rows are f32, bf16 or f64; gates have the rows'
// dtype (`gate`) or f32.
// Threads: any; every output row is written whole by one thread, in fixed order. Nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/kernels/parallel.h"
#include "ir/types/dtype.h"

namespace gangway {

inline constexpr int64_t kMoeChoicesMax = 64;  // Choices of one token beyond it are not combined.

struct RouteShape {
  int64_t groups = 1, tokens = 0, k = 1, experts = 1, capacity = 0;
  int64_t slots() const { return capacity > 0 ? experts * capacity : tokens * k; }
};
struct RouteTensors {
  int32_t *slot_token, *token_slot, *sizes;
};
void moe_route(Parallel& par, const RouteShape& shape, const int32_t* expert,
               const RouteTensors& out);

struct MoeShape {
  DType dtype = DType::kF32, gate = DType::kF32;
  int64_t groups = 1, tokens = 0, k = 1, slots = 0, dim = 0;
};

// x[groups, tokens, dim] -> rows[groups, slots, dim]; empty slots are 0. (Its gradient is
// moe_combine without gates.)
void moe_dispatch(Parallel& par, const MoeShape& shape, const void* x, const int32_t* slot_token,
                  void* rows);

// y[g, t] = sum over j of gate[g, t, j] * rows[g, token_slot[g, t, j]]; gate may be null: ones.
void moe_combine(Parallel& par, const MoeShape& shape, const void* rows, const void* gate,
                 const int32_t* token_slot, void* y);

// drows[g, s] = gate[g, t, j] * dy[g, t] for the choice in slot s, or 0.
void moe_combine_grad_rows(Parallel& par, const MoeShape& shape, const void* dy, const void* gate,
                           const int32_t* slot_token, void* drows);

// dgate[g, t, j] = <dy[g, t], rows[g, token_slot[g, t, j]]>, or 0 where dropped.
void moe_combine_grad_gate(Parallel& par, const MoeShape& shape, const void* dy, const void* rows,
                           const int32_t* token_slot, void* dgate);

}  // namespace gangway
