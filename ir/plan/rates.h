// DeviceRates: the committed figures by which work becomes modelled time, for each kind of device.
//
// Two read them: the pass that cuts calls into sections (ir/transforms/sections), where an estimate
// that is off by four does no harm, and the simulated device, which charges exactly these times for
// kernels (executor/devices/sim/links.h has those of links), so that a change of "sim" changes
// every simulated run. Nobody is promised a speed by them.
// Threads: pure.
// Errors: none; a kind that is not known has the rates of "cpu".
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/graph/function.h"

namespace gangway {

struct DeviceRates {
  double flops_per_s = 0;
  double memory_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // Rate of each device, in each direction.
  int64_t launch_ns = 0;
  int64_t collective_latency_ns = 0;

  // A kernel that does so much work and moves so many bytes of memory.
  int64_t step_ns(double flops, double bytes) const;
  // A ring: each device sends and receives twice the bucket, less one part.
  int64_t collective_ns(double bytes, uint32_t ranks) const;
  // A collective in which each device sends so many bytes.
  int64_t exchange_ns(double sent_bytes) const;
};

// "cpu", "sim" or "cuda", as an executor names what it offers.
const DeviceRates& rates_of(std::string_view kind);

// Time that a device needs for one node of a local function; `timed` takes the time that it names.
int64_t modelled_ns(const DeviceRates& rates, const Function& local, NodeId node);

}  // namespace gangway
