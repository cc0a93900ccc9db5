// The training step of a strategy, compiled for devices without a cluster.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/inspect/collectives.h"
#include "programs/strategies/strategies.h"
#include "programs/train/language_model.h"

namespace gangway::programs {

// The local function of the only call of `program`. `host_of`: the host of each device; empty: all
// devices are on one host.
Function local_function(const Program& program, const std::vector<uint32_t>& host_of = {});

Function compiled_step(const std::string& strategy, const Mesh& mesh, LanguageModelConfig config,
                       const std::vector<uint32_t>& host_of = {});

}  // namespace gangway::programs
