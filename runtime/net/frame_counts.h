// FrameCounts: what the streams with the same labels sent and received, as metrics.
//
// Threads: any, as counters are.
// Ownership: handles, which may outlive the Metrics.
#pragma once

#include "runtime/observe/metrics.h"

namespace gangway {

struct FrameCounts {
  FrameCounts(Metrics& metrics, const MetricLabels& labels);
  Counter frames_sent, frames_resent;  // Each frame is sent once; after a reconnect, sent again.
  Counter bytes_sent, writes;          // Of all that was written.
  Counter frames_received;             // Each once.
  Counter bytes_received, reads;       // Of all that was read.
  Counter reconnects;
};

}  // namespace gangway
