// Expert parallelism (GShard, Lepikhin et al. 2020): each device holds some of the experts, and the
// rows of tokens go to the devices of theirs and back, by an all-to-all each.
//
// The experts of every layer are cut over the axis "expert". A pyramid has more of them in some
// layers (PR-MoE; DeepSpeed-MoE, Rajbhandari et al. 2022, section 4.1), which may be cut over more
// devices: users factor the mesh into "expert", "expert2", "expert3", ..., and a layer is cut over
// each of the further axes, in this order, that divides what those before it leave of its experts.
// Over the others its experts are copied, as over "data": over expert2=2, expert=2 a layer of 2
// experts has 2 parts, each with two copies, and one of 4 experts has 4 parts. Exchanges of narrow
// layers stay within "expert", which therefore is best the last axis, of the nearest devices.
//
// Where the mesh has none of these axes but "model", along which sequence_parallel() cuts
// sequences, each of its devices holds whole dropless experts in place of a part of each: rows of
// tokens go to the devices of theirs, in place of all rows to all devices. Megatron Core calls it
// MoE parallel folding, with an expert tensor parallel size of 1 (Liu et al. 2025).
//
// Threads: pure.
#pragma once

#include "programs/models/moe.h"
#include "programs/strategies/strategy.h"

namespace gangway::programs {

// The axes over which the experts of `mesh` are cut.
std::vector<std::string> axes_of_experts(const Mesh& mesh);

// Over these axes, along all of which tokens are cut too; in combine() it goes before megatron().
// Where experts have a capacity, the slots of an expert are a part of all slots, as large as any
// other: rows are told to go there. Dropless, rows are cut by nothing but the tokens; experts'
// weights decide beside them, since rows move and weights stay
// (ir/op_table/rows/dropless_experts.h).
Strategy expert_parallel(const MoeConfig& experts, const Mesh& mesh);

}  // namespace gangway::programs
