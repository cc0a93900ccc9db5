// Options of a program that let its devices compute faster at the cost of bits.
//
// They have an effect on GPUs alone; CPUs compute as by the defaults, whatever the user chose.
//
// Threads: a value.
#pragma once

#include <optional>
#include <string>

namespace gangway {

struct Numerics {
  // Whether a run gives the same bits each time. Not chosen: true for all ops but the gradient of
  // attention in bf16, whose sums for queries have a fixed order only where cuDNN offers that at
  // little cost: up to 1 GiB of scores, on cards before Blackwell. true: also for that gradient,
  // which beyond these limits Gangway's own kernels compute. false: sums are taken in any order,
  // which is never slower. (PyTorch: use_deterministic_algorithms.)
  std::optional<bool> deterministic;
  // Products of f32, also those of experts, may round their operands to TF32, 10 bits of mantissa,
  // as tensor cores do; sums stay in f32. (PyTorch: torch.backends.cuda.matmul.allow_tf32.)
  bool allow_tf32 = false;
  friend bool operator==(const Numerics&, const Numerics&) = default;
};

// The text form, with a blank in front: " deterministic true allow_tf32 true"; leaves out the
// options that were not chosen.
std::string to_string(const Numerics& numerics);

}  // namespace gangway
