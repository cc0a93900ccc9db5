// The GPUs of this machine, for `gangway executor --device cuda`.
//
// It has a file of its own, since the headers in which "stream" is a device's and those in which it
// is a network's can't be included together.
#pragma once

#include "executor/host/host.h"

namespace gangway::tool {

// Offers one device for each GPU, unless host.devices says otherwise. Throws kUnavailable with the
// reason if there is none.
void offer_gpus(HostOptions& host);

}  // namespace gangway::tool
