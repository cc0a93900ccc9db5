// Decides how residuals are cut: the values of a scan's iterations that its gradient needs.
//
// A residual is cut like the value that it keeps. If that value is cut along an axis, but the
// forward pass gathers it for a reader and the backward pass would gather it again for one of its
// own readers, the gathered value is kept: one collective less in every iteration, for a stack that
// is larger by the axis. Sequence parallelism then gathers the inputs of products once a layer.
//
// If the value is an unreduced sum, and all its readers in both passes are linear in it, the
// devices' terms are kept, and the readers' results are reduced instead: for the gradient of
// experts' gates a number for each row, and not the rows.
//
// Memory is not traded for traffic where the user chose otherwise:
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
bool shard_residuals(const JointGraph& joint, const PlacedValues& placed, Cuts& cuts);

}  // namespace gangway
