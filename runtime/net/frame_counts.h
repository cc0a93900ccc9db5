// FrameCounts: counts what the streams with the same labels sent and received, as metrics.
//
// Threads: any, like counters.
// Ownership: handles, which may outlive the Metrics.
#pragma once

#include "runtime/observe/metrics.h"

namespace gangway {

struct FrameCounts {
  FrameCounts(Metrics& metrics, const MetricLabels& labels);
  Counter frames_sent, frames_resent;  // Each frame is sent once, and resent after a reconnect.
  Counter bytes_sent, writes;          // Everything written, prefixes too.
  Counter frames_received;             // Each frame once.
  Counter bytes_received, reads;       // Everything read.
  Counter reconnects;
};

}  // namespace gangway
