// What a program lets its devices do to be faster, at the cost of bits: options of the program.
//
// They matter on cards alone; CPUs compute as the defaults say whatever is chosen.
//
// Threads: a value.
#pragma once

#include <optional>
#include <string>

namespace gangway {

struct Numerics {
  // Whether a run gives the same bits each time. Not chosen: in all but the gradient of attention
  // in bf16, whose sums of queries are taken in one order where cuDNN does that at little cost: up
  // to 1 GiB of scores, on cards before Blackwell. true: there too, by Gangway's own kernels where
  // cuDNN has no order. false: as sums come, which is never slower. (PyTorch:
  // use_deterministic_algorithms.)
  std::optional<bool> deterministic;
  // Products of f32, also of experts, may round what they multiply to TF32, 10 bits of mantissa,
  // as tensor cores do; sums stay in f32. (PyTorch: torch.backends.cuda.matmul.allow_tf32.)
  bool allow_tf32 = false;
  friend bool operator==(const Numerics&, const Numerics&) = default;
};

// As a program's text says it, a blank in front: " deterministic true allow_tf32 true"; what was
// not chosen is left out.
std::string to_string(const Numerics& numerics);

}  // namespace gangway
