#include "runtime/net/frame_counts.h"

namespace gangway {

FrameCounts::FrameCounts(Metrics& metrics, const MetricLabels& labels)
    : frames_sent(metrics.counter("gangway_frames_sent_total", "Frames sent", labels)),
      frames_resent(metrics.counter("gangway_frames_resent_total",
                                    "Frames sent again after a reconnect", labels)),
      bytes_sent(metrics.counter("gangway_frame_bytes_sent_total", "Bytes of frames sent", labels)),
      writes(metrics.counter("gangway_frame_writes_total", "Writes of many frames each", labels)),
      frames_received(metrics.counter("gangway_frames_received_total", "Frames received", labels)),
      bytes_received(metrics.counter("gangway_frame_bytes_received_total",
                                     "Bytes of frames received", labels)),
      reads(metrics.counter("gangway_frame_reads_total", "Reads of many frames each", labels)),
      reconnects(metrics.counter("gangway_frame_reconnects_total",
                                 "Connections that took the place of a lost one", labels)) {}

}  // namespace gangway
