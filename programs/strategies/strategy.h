// A strategy of parallel training: it says which tensors of a model are cut along which axes of the
// mesh.
//
// A strategy is rules and nothing else. The model's source is the same under each strategy: rules
// name its states and activations, propagation carries them to all other values, and a collective
// is inserted where two values meet that lie differently
// (ir/transforms/propagation/propagate_shardings.h). Each strategy has a file, under the field's
// name; combine() makes one strategy of several, and strategies.h makes one from names.
//
// Priorities decide which rule counts first where rules meet in one op: first the batch, then the
// rules that divide the computation (tensor, sequence, expert, context), then those that only say
// where tensors are kept (ZeRO). A weight that is cut for storage is therefore gathered, and does
// not make the batch whole.
//
// Axes have roles by their names. "model" cuts the weights of each layer (tensor parallelism), and
// "context" cuts sequences. All other axes cut the batch: each device has rows of its own. Among
// them "data", "expert" and the further "expert2", "expert3", ... also divide the tensors that ZeRO
// keeps. Along any other axis ("replica") each device keeps all of them.
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
  AxisPlacements batch;  // Placements of the tokens, i32[batch, seq].
  // Rules by the parameter's name in its tree ("layers.attn.o"), in dimensions of one layer.
  std::vector<PlacementRule> parameters;
  std::vector<PlacementRule> moments;    // Beside those of their parameter, under its name.
  std::vector<PlacementRule> gradients;  // Apply as soon as they are computed, under the same name.
  std::vector<PlacementRule> activations;  // TransformerConfig::activations
};

// Returns one strategy with all that the parts say of batches, parameters and activations. If two
// rules place one axis of a parameter, the earlier one counts. Rules of parameters are spelled out,
// one for each parameter and priority. A placement that names no axis of the mesh, or does not
// divide the dimension, is left out.
Strategy combine(const std::vector<Strategy>& parts, const Mesh& mesh, const StateTree& parameters);

// Rules for states below `prefix`: "layers.attn.o" becomes "params.layers.attn.o".
std::vector<PlacementRule> below(std::string_view prefix, std::vector<PlacementRule> rules);

// The axes of more than one device along which the batch is cut.
std::vector<std::string> batch_axes(const Mesh& mesh);

// The axes "expert", "expert2", "expert3", ... up to the first that the mesh lacks, but only those
// that have more than one device.
std::vector<std::string> expert_axes(const Mesh& mesh);

// Number of parts into which the placements cut a dimension.
int64_t parts_of(const Mesh& mesh, const AxisPlacements& placements, int dim);

// The size of an axis; 1 if the mesh has none of this name.
int64_t size_of(const Mesh& mesh, std::string_view axis);

}  // namespace gangway::programs
