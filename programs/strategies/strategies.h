// Strategies by name, as `gangway train --strategy` takes them.
//
//   data_parallel          over every axis but "model" and "context"; always there
//   zero1, zero2, zero3    over "data", "expert", "expert2", ...
//   megatron               over "model"
//   sequence_parallel      over "model", with megatron
//   vocab_parallel         over "model"
//   expert_parallel        over "expert"; layers of more experts over "expert2", ... too. With
//                          megatron+sequence_parallel and no "expert", dropless ones
//                          over "model"
//   context_parallel       over "context"
//
// Threads: pure.
// Errors: kInvalid for names that do not exist or do not go together, for axes of the mesh that no
// strategy uses, for strategies whose axis the mesh lacks, and for models that can't be cut so. The
// error names a way out.
#pragma once

#include <string>

#include "programs/models/transformer.h"
#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Returns all names: "data_parallel, zero1, ...".
std::string strategy_names();

// `names`: strategies joined by "+", in any order: "zero3+megatron".
Strategy strategy_of(const std::string& names, const Mesh& mesh, const TransformerConfig& model);

}  // namespace gangway::programs
