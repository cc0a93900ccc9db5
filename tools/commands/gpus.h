// The GPUs of this machine, for `gangway executor --device cuda`.
//
// A file of its own: what says "stream" to a device and to a network can't be included together.
#pragma once

#include "executor/host/host.h"

namespace gangway::tool {

// One device for each GPU, unless host.devices says otherwise. Throws kUnavailable with the reason
// where there is none.
void offer_gpus(HostOptions& host);

}  // namespace gangway::tool
