// Prefetch: a scan whose body gathers parameters that are stored in parts gathers those of the next
// iteration while it computes this one (ZeRO-3, Rajbhandari et al. 2020, section 7.2.2; FSDP, Zhao
// et al. 2023, section 3.3.2).
//
// The tensors that a body moves, converts and gathers from its slices do not depend on the
// iteration before, so this work is done one iteration earlier: the gathered tensors become carries
// that are computed ahead (ScanLayout::ahead), at the begin of the body, and the first ones are
// computed before the loop. A carry has two buffers, so at most two iterations' tensors exist at a
// time, and each is overwritten when it has been used. Nothing is gathered more often than before.
// A loop that would have more operands or results than a node may have stays as it is.
//
// Threads: a pure function.
// Cost: linear in nodes.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function, and treats the scans in its bodies too.
Function prefetch_gathers(const Function& local);

}  // namespace gangway
