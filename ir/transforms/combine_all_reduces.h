// All-reduces that do not depend on one another become one node with several operands: one meeting
// of the devices in place of many (the gradients of a step; like the buckets of PyTorch DDP, Li et
// al. 2020, with one bucket).
#pragma once

#include "ir/function.h"

namespace gangway {

Function combine_all_reduces(const Function& local);

}  // namespace gangway
