// A controller and one host in this process, a client of theirs, and what a language model's first
// training steps lose there.
#pragma once

#include <functional>
#include <vector>

#include "client/client.h"
#include "executor/host/host.h"
#include "programs/train/language_model.h"

namespace gangway {

// A host that is not told has 32 MiB for each device.
void with_cluster(HostOptions host, const std::function<void(const Client&)>& body);

std::vector<float> losses_on(const HostOptions& host, const programs::LanguageModelConfig& config,
                             int64_t steps, float lr = 0.01f);

}  // namespace gangway
