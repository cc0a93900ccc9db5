// A strategy of parallel training: what of a model is cut along which axes of the mesh.
//
// A strategy is rules and nothing else. The model's source is the same under each of them: rules
// speak of its states and activations by name, propagation carries them to all other values, and
// where two values meet that lie differently a collective is inserted
// (ir/transforms/propagation/propagate_shardings.h). One file each, under the field's name; several
// make one by combine(), and strategies.h makes one from names.
//
// Priorities say whose word counts first where rules meet in one op: the batch, then what divides
// the computation (tensor, sequence, expert, context), then where tensors are only kept (ZeRO): so
// a weight that is cut for storage is gathered, and does not make the batch whole.
//
// Axes have roles by their names: "model" cuts the weights of each layer (tensor parallelism),
// "context" cuts sequences; along all others the batch is cut, each device has rows of its own. Of
// those, "data", "expert" and "expert2", "expert3", ... beside it also divide what ZeRO keeps, and
// along any other ("replica") all of it is kept again.
//
// Threads: values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/build/program_builder.h"

namespace gangway::programs {

inline constexpr int kBatchPriority = 0, kComputePriority = 1, kStoragePriority = 2;

inline constexpr std::string_view kModelAxis = "model", kContextAxis = "context",
                                  kExpertAxis = "expert", kDataAxis = "data";

struct Strategy {
  AxisPlacements batch;  // Of tokens: i32[batch, seq].
  // By the parameter's name in its tree ("layers.attn.q"), in dimensions of one layer.
  std::vector<PlacementRule> parameters;
  std::vector<PlacementRule> moments;      // Beside those of their parameter, under its name.
  std::vector<PlacementRule> gradients;    // As soon as they are computed, under the same name.
  std::vector<PlacementRule> activations;  // TransformerConfig::activations
};

// One strategy that says what all of them say of batches, parameters and activations. Of two rules
// for one axis of a parameter the earlier counts. Rules of parameters are spelled out, one for each
// parameter and priority; what names no axis of the mesh, or does not divide the dimension, is left
// out.
Strategy combine(const std::vector<Strategy>& parts, const Mesh& mesh, const StateTree& parameters);

// Rules for states below `prefix`: "layers.attn.q" becomes "params.layers.attn.q".
std::vector<PlacementRule> below(std::string_view prefix, std::vector<PlacementRule> rules);

// The axes of more than one device along which the batch is cut.
std::vector<std::string> batch_axes(const Mesh& mesh);

// Those of "expert", "expert2", "expert3", ... that have more than one device, up to the first that
// the mesh lacks.
std::vector<std::string> expert_axes(const Mesh& mesh);

// In how many parts the placements cut a dimension.
int64_t parts_of(const Mesh& mesh, const AxisPlacements& placements, int dim);

// The size of an axis; 1 where the mesh has none of this name.
int64_t size_of(const Mesh& mesh, std::string_view axis);

}  // namespace gangway::programs
