// Generates text, byte by byte, with the key/value caches on the devices.
//
// Threads: one thread. Each step is enqueued before the token of the one before it is read, and the
// tokens come back one behind another.
#pragma once

#include <cstdint>
#include <string>

#include "client/client.h"

namespace gangway::programs {

struct SampleOptions {
  int64_t bytes = 120;       // Prompt included; at most the model's sequence length.
  double temperature = 0.8;  // 0: takes the likeliest byte each time.
  uint64_t seed = 1;
  std::string prompt;
};

// `generate`: a compiled generate_step (language_model.h). Returns prompt and continuation; bytes
// that are not printable ASCII, tab or newline are shown as '?'.
std::string sample(const Executable& generate, const SampleOptions& options);

}  // namespace gangway::programs
