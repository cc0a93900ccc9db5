// Inputs and outputs of the gradient rule of an op row. Rules build ops on the same builder, in the
// global view.
#pragma once

#include <vector>

#include "ir/build/value.h"

namespace gangway {

struct GradientCall {
  Builder& builder;
  const Node& node;
  const std::vector<Value>& inputs;
  const std::vector<Value>& results;
  // Cotangent of each result; an empty Value if the loss does not depend on that result. At least
  // one is not empty.
  const std::vector<Value>& cotangents;
  Loc loc;
  // Whether the cotangent of each input is wanted; those of others are dropped.
  const std::vector<bool>& wanted;
};

// Composites: the same results from smaller ops.
struct DecomposeCall {
  Builder& builder;
  const Node& node;
  const std::vector<Value>& inputs;
  Loc loc;
};

}  // namespace gangway
