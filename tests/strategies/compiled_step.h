// The training step of a strategy as devices get it, without a cluster.
//
// Threads: pure functions.
#pragma once

#include "ir/inspect/collectives.h"
#include "programs/strategies/strategies.h"
#include "programs/train/language_model.h"

namespace gangway::programs {

// The local function of the only call of `program`.
Function local_function(const Program& program);

Function compiled_step(const std::string& strategy, const Mesh& mesh, LanguageModelConfig config);

}  // namespace gangway::programs
