// Compares the losses of a language model's first steps on a card with those on the CPU.
//
// Errors: gtest failures.
#pragma once

#include "programs/train/language_model.h"
#include "tests/cuda/card.h"

namespace gangway {

struct LossCheck {
  int devices = 1;           // Devices on the card; the CPU has one.
  int threads = 1;           // Threads on the CPU; 0: all.
  int64_t memory_bytes = 0;  // Memory of each device; 0: with_cluster() chooses.
  int64_t steps = 2;
  float lr = 0.01f;
  float tolerance = 1e-4f;  // Tolerance of a loss.
};

// Prints the losses of both. Fails if the model learns nothing, since such losses would prove
// nothing.
void expect_the_losses_of_the_cpu(const Card& card, const programs::LanguageModelConfig& config,
                                  const LossCheck& check);

}  // namespace gangway
