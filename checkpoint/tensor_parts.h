// Names under which files hold tensors that a program holds side by side in one.
//
//   in the program                    in files
//   layers.0.attn.qkv [dim, 3, dim]   layers.0.attn.q, layers.0.attn.k, layers.0.attn.v [dim, dim]
//
// A program computes queries, keys and values as one product. Earlier versions computed three, and
// so do other tools; their files are read, and files are written that they can read. Files that a
// cluster keeps by itself have the tensor as the program does.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/types/type.h"

namespace gangway {

// The weights of queries, keys and values: models that have them take the names from here.
struct PackedTensor {
  std::string name;                // "qkv", below "attn"
  std::vector<std::string> parts;  // "q", "k", "v", in the order in which they lie
};
const PackedTensor& packed_projections();

// The names of the parts of a tensor of this name and shape, in the order in which they lie along
// dimension 1, which they do not have; empty: files hold the tensor as it is. Names may have any
// components in front: "adamw.m.params.layers.0.attn.qkv".
std::vector<std::string> names_of_parts(std::string_view name, const Dims& shape);

}  // namespace gangway
