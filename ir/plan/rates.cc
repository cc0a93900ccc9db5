#include "ir/plan/rates.h"

#include <algorithm>
#include <cmath>

#include "ir/graph/bodies.h"
#include "ir/graph/node_facts.h"
#include "ir/plan/plan_members.h"

namespace gangway {
namespace {

// A device is one or two ordinary cores. Products of f32 reach 120 GFLOP/s on a core with AVX2 and
// twice that with AVX-512, bf16 more, element-wise chains and attention far less. A core alone
// copies some 10 GB/s, members of an all-reduce through shared memory 3 to 4 GB/s, and a small one
// takes 5 to 15 us. These figures were measured on one machine of two cores; the constants here
// round them down.
constexpr DeviceRates kCpu{.flops_per_s = 100e9,
                           .memory_bytes_per_s = 10e9,
                           .link_bytes_per_s = 4e9,
                           .launch_ns = 500,
                           .collective_latency_ns = 10'000};

// One accelerator of the class that Gangway is for.
constexpr DeviceRates kSim{.flops_per_s = 100e12,
                           .memory_bytes_per_s = 2e12,
                           .link_bytes_per_s = 200e9,
                           .launch_ns = 3'000,
                           .collective_latency_ns = 10'000};

// From the data sheets of cards with 3 TB/s of memory and 1,000 TFLOP/s in bf16, of which a third
// is assumed to be reached; no card was measured.
constexpr DeviceRates kCuda{.flops_per_s = 300e12,
                            .memory_bytes_per_s = 2.5e12,
                            .link_bytes_per_s = 200e9,
                            .launch_ns = 3'000,
                            .collective_latency_ns = 20'000};

// Saturates: an op may claim more work than any device does in a lifetime.
int64_t to_ns(double seconds) { return std::llround(std::min(seconds * 1e9, 1e18)); }

// Time of one execution of a body.
double body_ns(const DeviceRates& rates, const Function& body) {
  double total = 0;
  for (NodeId id = 0; id < body.nodes.size(); ++id)
    total += static_cast<double>(modelled_ns(rates, body, id));
  return total;
}

}  // namespace

int64_t DeviceRates::step_ns(double flops, double bytes) const {
  return launch_ns + to_ns(std::max(flops / flops_per_s, bytes / memory_bytes_per_s));
}

int64_t DeviceRates::collective_ns(double bytes, uint32_t ranks) const {
  const double moved = 2.0 * bytes * (ranks - 1) / ranks;
  return collective_latency_ns + to_ns(moved / link_bytes_per_s);
}

int64_t DeviceRates::exchange_ns(double sent_bytes) const {
  return collective_latency_ns + to_ns(sent_bytes / link_bytes_per_s);
}

const DeviceRates& rates_of(std::string_view kind) {
  if (kind == "sim") return kSim;
  if (kind == "cuda") return kCuda;
  return kCpu;
}

int64_t modelled_ns(const DeviceRates& rates, const Function& local, NodeId id) {
  const Node& node = local.nodes[id];
  if (shares_body(node.op) && node.body != nullptr) {
    const auto times = static_cast<double>(ScanLayout(node).length);
    return to_ns(times * body_ns(rates, *node.body) * 1e-9);
  }
  const OpRow& facts = row(node.op);
  if (facts.busy_ns != nullptr) return facts.busy_ns(node.attrs);
  if (node.op == Op::all_reduce) {
    double bytes = 0;
    for (ValueId input : node.inputs) bytes += static_cast<double>(local.types[input].bytes());
    return rates.collective_ns(bytes, ranks_along(local.mesh, node.attrs.text("axes")));
  }
  const Cost cost = cost_of(local, id);
  if (facts.meets) return rates.exchange_ns(cost.bytes);
  return rates.step_ns(cost.flops, cost.bytes);
}

}  // namespace gangway
