// Prefetch: a scan whose body gathers parameters that are stored in parts gathers those of the next
// iteration while it computes this one (ZeRO-3, Rajbhandari et al. 2020, section 7.2.2; FSDP, Zhao
// et al. 2023, section 3.3.2).
//
// What a body moves, converts and gathers of its slices does not depend on the iteration before.
// So it is done one iteration earlier: the gathered tensors become carries that are made ahead
// (ScanLayout::ahead), at the begin of the body, and the first ones are made before the loop. A
// carry has two buffers, so two iterations' tensors are there at most, and each is overwritten
// when it has been used. Nothing is gathered more often than before. Where the loop would have more
// operands or results than a node may have, it stays as it is.
//
// Threads: a pure function.
// Cost: linear in nodes.
#pragma once

#include "ir/graph/function.h"

namespace gangway {

// Takes a local function, and treats the scans in its bodies too.
Function prefetch_gathers(const Function& local);

}  // namespace gangway
