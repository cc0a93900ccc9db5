// Results of Client::status(): the hosts of a cluster, and the programs on them.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/reported.h"
#include "protocol/share.h"

namespace gangway {

struct HostStatus {
  std::string name, kind, text;  // `text`: one line a device.
  std::string island;
  uint32_t devices = 0;
  int64_t memory_bytes = 0, memory_used = 0;  // Per device; used: on the fullest one.
  uint64_t runs_done = 0;
  int64_t suspect_ms = 0;          // How long it has said nothing, once that is suspicious; else 0.
  std::vector<std::string> stuck;  // Devices whose work does not go on, and in what.
  bool is_draining = false;        // It gets no new slices: see Client::drain().
  bool is_drained = false;         // Nothing lies on it any more, either.
  // When the certificate with which it registered ends, since 1970; 0: it has shown none. An
  // executor shows a renewed one once it is restarted.
  int64_t certificate_ends_s = 0;
};

// A program of a client that is connected, or has detached.
struct ProgramStatus {
  uint64_t id = 0;
  std::string name;
  std::string owner;  // The user who runs it: letters, digits, '-', '_' and '.', at most 64.
  Share share;
  double used = 0;  // Part of the time of the devices that it may run on, over the last second.
  uint64_t runs_waiting = 0, runs_in_flight = 0, runs_done = 0;
  Reported reported;               // Its last report of itself: see Client::report().
  int64_t memory_bytes = 0;        // Reserved for it, on all devices together.
  std::vector<std::string> hosts;  // Hosts on which its slices lie.
  uint32_t devices = 0;            // Devices of the cluster that its slices have.
  std::string waits_for;           // Slices, in the words of SliceOptions::on_wait; empty: none.
  bool is_self = false;            // It is the asking client's own.
  bool detached = false;           // It goes on without a client.
  bool suspended = false;          // Its runs wait: see Client::suspend_program().
  int64_t host_bytes = 0;          // While suspended: its states in host memory.
  uint64_t checkpoint = 0;         // Version of the newest that the cluster keeps; 0: none.
};

struct ClusterStatus {
  std::vector<HostStatus> hosts;
  std::vector<ProgramStatus> programs;
  std::string metrics;             // The controller's, in the text format of Prometheus.
  int64_t certificate_ends_s = 0;  // When the controller's ends, since 1970; 0: without TLS.
};

}  // namespace gangway
