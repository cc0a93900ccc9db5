// Expert parallelism (GShard, Lepikhin et al. 2020): each device holds some of the experts. Rows of
// tokens go to the devices of their experts by an all-to-all, and back by another one.
//
// The experts of every layer are cut over the axis "expert". A pyramid has more of them in some
// layers (PR-MoE; DeepSpeed-MoE, Rajbhandari et al. 2022, section 4.1), which may be cut over more
// devices: users factor the mesh into "expert", "expert2", "expert3", ... In this order, each
// further axis cuts a layer if it divides the number of experts that the axes before it leave. Over
// the other axes the layer's experts are copied, as over "data": over expert2=2, expert=2 a layer
// of 2 experts has 2 parts, each with two copies, and one of 4 experts has 4 parts. Exchanges of
// narrow layers stay within "expert", which therefore is best the last axis, of the nearest
// devices.
//
// If the mesh has none of these axes but has "model", along which sequence_parallel() cuts
// sequences, each device along "model" holds whole dropless experts in place of a part of each
// expert. Rows of tokens then go to the devices of their experts instead of all rows to all
// devices. Megatron Core calls it MoE parallel folding, with an expert tensor parallel size of 1
// (Liu et al. 2025).
//
// Threads: pure.
#pragma once

#include "programs/models/moe.h"
#include "programs/strategies/strategy.h"

namespace gangway::programs {

// Returns the axes over which the experts of `mesh` are cut.
std::vector<std::string> axes_of_experts(const Mesh& mesh);

// Cuts experts over these axes, along all of which tokens are cut too. In combine() it goes before
// megatron(). If experts have a capacity, the slots of an expert are a part of all slots, as large
// as any other, and a rule places them where the expert lies. If they are dropless, no rule cuts
// rows but that of the tokens. The experts' weights decide beside it, since rows move and weights
// stay (ir/transforms/conversions/expert_rows.h).
Strategy expert_parallel(const MoeConfig& experts, const Mesh& mesh);

}  // namespace gangway::programs
