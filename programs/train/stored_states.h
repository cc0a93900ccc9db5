// Tells which tensors of a slice's states a checkpoint holds, and in which of its files, by what
// name.
//
//   params.layers.0.q     model.safetensors, as "layers.0.q", the name that other tools use
//   adamw.m.params.w      optimizer.safetensors, under its own name
//   w, params             states.safetensors, the same; the file is there if there is such a state
//
// Threads: pure, but for the slice's states.
// Errors: kInvalid.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"

namespace gangway::programs {

enum class StoredIn : uint8_t { kModel, kOptimizer, kStates };

StoredIn place_of(std::string_view state);
// Returns the patterns of the states that training changes: parameters, and what optimizers keep.
std::vector<std::string> trained_states();
// The name of a state in the model's files, and the state of such a name.
std::string name_in_model(std::string_view state);
std::string state_of(std::string_view name_in_model);

// Whether a file holds the tensor of this name as it is, though files hold others like it in parts.
using IsWhole = std::function<bool(const std::string& name)>;
inline bool none_is_whole(const std::string&) { return false; }

// Puts in the place of each tensor that files hold in parts these parts, unless it is whole
// (checkpoint/tensor_parts.h).
std::vector<StateTensor> in_parts(const std::vector<StateTensor>& tensors, const IsWhole& is_whole);

// Returns the tensors of the slice's states that one of the patterns matches ("params.*"), in
// parts; without patterns, all. kInvalid if the slice has no states, or if no state matches a
// pattern.
std::vector<StateTensor> chosen_states(const Slice& slice, const std::vector<std::string>& patterns,
                                       const IsWhole& is_whole = none_is_whole);
// Returns those of the tensors that lie in this file, under their names there.
std::vector<StateTensor> stored_in(StoredIn place, std::vector<StateTensor> tensors);

// Returns "a, b and 7 more".
std::string some_of(const std::vector<std::string>& names);

}  // namespace gangway::programs
