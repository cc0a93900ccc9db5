// What a language model's first training steps lose on the devices of one host, through client,
// controller and executor.
#pragma once

#include <vector>

#include "executor/host.h"
#include "programs/train/language_model.h"

namespace gangway {

std::vector<float> losses_on(HostOptions host, const programs::LanguageModelConfig& config,
                             int64_t steps);

}  // namespace gangway
