// Where residuals lie: what an iteration of a scan keeps for its gradient.
//
// A residual follows the value that it keeps. Where that value is cut along an axis, but the
// forward pass gathers it for a reader and the backward pass would gather it again for one of its
// own, it is kept as it was read: one collective less in every iteration, for a stack that is
// larger by the axis. Sequence parallelism then gathers the inputs of products once a layer.
//
// Where it is a sum that is not done, and all its readers in both passes are linear in it, it is
// kept as the devices' terms, and what is made of it is reduced instead: the gradient of experts'
// gates, a number for each row, and not the rows.
//
// Memory is not traded for traffic where the user said so:
//  - A value that does not depend on the iterations before is made of what is stored, as a gathered
//    parameter is. It is gathered for each pass by itself (ZeRO-3).
//  - A rematerialised iteration keeps what it reads as it is, and gathers what it computes again
//    (Korthikanti et al. 2022, section 4.2.2, do so with the inputs of products).
//
// Threads: a pure function.
// Cost: linear in edges times axes, of a value that is stacked several times in each of its stacks;
// `Cuts::steps` counts the readers that are looked at.
#pragma once

#include <vector>

#include "ir/transforms/propagation/decide_cuts.h"
#include "ir/transforms/propagation/joint_graph.h"
#include "ir/transforms/propagation/place_values.h"

namespace gangway {

// Changes how the ties of residuals are cut, and the decisions on them. `placed`: what the cuts
// have given so far. Says whether it changed any, so that values are to be placed again.
bool keep_as_read(const JointGraph& joint, const PlacedValues& placed, Cuts& cuts);

}  // namespace gangway
