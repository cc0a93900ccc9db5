// A language model's first steps on a card are those of the CPU.
//
// Errors: gtest failures.
#pragma once

#include "programs/train/language_model.h"
#include "tests/cuda/card.h"

namespace gangway {

struct LossCheck {
  int devices = 1;           // Of the card; the CPU has one.
  int threads = 1;           // Of the CPU; 0: all.
  int64_t memory_bytes = 0;  // Of each device; 0: as with_cluster().
  int64_t steps = 2;
  float lr = 0.01f;
  float tolerance = 1e-4f;  // Of a loss.
};

// Prints both. A model that learns nothing fails: its losses would say nothing.
void expect_the_losses_of_the_cpu(const Card& card, const programs::LanguageModelConfig& config,
                                  const LossCheck& check);

}  // namespace gangway
