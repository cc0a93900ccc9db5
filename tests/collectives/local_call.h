// Runs one call of a local function on hosts of this process, and compares it with the reference
// interpreter: shared by tests of collectives on CPU and simulated devices.
//
// Every device's results are read back as parts of one array.
// Threads: the test's.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/function.h"
#include "ir/plan/rates.h"
#include "ir/transforms/sections/cut_sections.h"
#include "runtime/base/rng.h"
#include "tests/interpret/interpret.h"
#include "tests/support/seed.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {

// The hosts and devices of a mesh.
struct Cluster {
  const char* name;
  uint32_t hosts, devices, ranks;  // Devices of each host, ranks on each device.
  Mesh mesh;
};
inline void PrintTo(const Cluster& cluster, std::ostream* out) { *out << cluster.name; }

inline const Mesh kTwo{{{"data", 2}}}, kThree{{{"data", 3}}}, kSquare{{{"data", 2}, {"model", 2}}};
inline const Cluster kClusters[] = {
    {"TwoDevices", 1, 2, 1, kTwo},       {"TwoHosts", 2, 1, 1, kTwo},
    {"ThreeDevices", 1, 3, 1, kThree},   {"FourDevices", 1, 4, 1, kSquare},
    {"TwoHostsOfTwo", 2, 2, 1, kSquare}, {"TwoRanksOnEachOfTwo", 2, 1, 2, kSquare},
};

// Sizes between -1 and 5, so that some are out of range; other numbers are whole and small, so that
// sums are exact in every type and do not depend on their order.
inline Literal random_argument(const Type& type, Rng& rng) {
  Literal x = filled(type, 0);
  for (double& value : x.values) value = static_cast<double>(rng.below(7)) - 1;
  round_values(x);
  return x;
}

// Random arguments, by device.
inline std::vector<std::vector<Literal>> random_arguments(const Function& f, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::vector<Literal>> arguments(static_cast<size_t>(f.mesh.devices()));
  for (std::vector<Literal>& of_device : arguments) {
    for (size_t p = 0; p < f.parameters.size(); ++p)
      of_device.push_back(random_argument(f.types[p], rng));
  }
  return arguments;
}

// The type of an array whose part on each of n devices, along its first dimension, is `local`.
inline Type over_devices(Type local, int64_t n) {
  local.dims[0] *= n;
  return local;
}

// Hosts of this process.
struct LocalHosts {
  // `gpus`: the cards of each host; may be empty.
  LocalHosts(const Cluster& on, DeviceKind kind,
             const std::vector<std::vector<std::shared_ptr<cuda::Driver>>>& gpus = {})
      : cluster(on),
        reactor(kind == DeviceKind::kSim ? Reactor::make_simulated() : Reactor::make_real()),
        hosts(*reactor, on.hosts, on.devices, kind, nullptr, int64_t{64} << 20, gpus) {}

  const Cluster cluster;
  const std::unique_ptr<Reactor> reactor;
  TestHosts hosts;
};

// A plan of one call of a local function, on all devices.
class LocalCall {
 public:
  static constexpr int64_t kSectionNs = 100'000;

  LocalCall(const Cluster& cluster, std::shared_ptr<const Function> function, DeviceKind kind)
      : LocalCall(std::make_shared<LocalHosts>(cluster, kind), PlanId(1), std::move(function)) {}
  LocalCall(std::shared_ptr<LocalHosts> on, PlanId id, std::shared_ptr<const Function> function,
            int64_t section_ns = kSectionNs)
      : id_(id),
        function_(std::move(function)),
        on_(std::move(on)),
        hosts_(on_->hosts),
        plan_("local", on_->cluster.hosts, on_->cluster.devices) {
    const Cluster& cluster = on_->cluster;
    plan_.plan().slices[0].mesh = cluster.mesh;
    plan_.plan().slices[0].ranks_per_device = cluster.ranks;
    LocalFunction local{function_, static_cast<NodeId>(function_->nodes.size()), {}, kNone};
    local.sections = cut_sections(*local.function, local.commit_begin, rates_of("cpu"), section_ns);
    plan_.plan().functions.push_back(local);
    const Sharding rows(cluster.mesh.axes.size(), shard(0));
    std::vector<uint32_t> inputs, outputs;
    for (size_t p = 0; p < function_->parameters.size(); ++p)
      inputs.push_back(plan_.input(function_->parameters[p].name, whole(p), rows));
    for (size_t r = 0; r < function_->results.size(); ++r) {
      outputs.push_back(
          plan_.output(function_->result_names[r], whole(function_->results[r]), rows));
    }
    plan_.call("local", 0, inputs, outputs);
  }

  void install() { hosts_.install(id_, plan_.share()); }
  TestHosts& hosts() { return hosts_; }
  size_t sections() { return plan_.plan().functions[0].sections.size(); }

  std::vector<std::vector<Literal>> run(const std::vector<std::vector<Literal>>& arguments,
                                        uint64_t run = 1) {
    const RunFrame frame = request(arguments, run);
    hosts_.start(frame);
    return results(frame);
  }

  // A run of the plan, with its arguments put on the devices.
  RunFrame request(const std::vector<std::vector<Literal>>& arguments, uint64_t run) {
    RunFrame frame{.plan = id_, .run = RunId(run)};
    for (uint32_t p = 0; p < function_->parameters.size(); ++p) {
      const ArrayId array(run * 100'000 + p);
      std::vector<Literal> parts;
      for (const auto& of_device : arguments) parts.push_back(of_device[p]);
      hosts_.put<std::byte>(array, id_, p, to_bytes(join(parts, 0)));
      frame.arguments.push_back({.input = p, .array = array});
    }
    for (uint32_t r = 0; r < function_->results.size(); ++r)
      frame.outputs.push_back(ArrayId(run * 100'000 + 50'000 + r));
    return frame;
  }
  // The results of a started run, by device. Throws the run's error.
  std::vector<std::vector<Literal>> results(const RunFrame& frame) {
    const Done done = hosts_.wait(frame.run);
    if (done.error) throw *done.error;
    std::vector<std::vector<Literal>> results(static_cast<size_t>(devices()));
    for (uint32_t r = 0; r < function_->results.size(); ++r) {
      const Type type = whole(function_->results[r]);
      const Literal all = from_bytes(
          type, hosts_.get<std::byte>(frame.outputs[r], static_cast<size_t>(type.bytes())));
      for (size_t d = 0; d < results.size(); ++d)
        results[d].push_back(part_of(all, 0, devices(), static_cast<int64_t>(d)));
    }
    return results;
  }

 private:
  int64_t devices() const { return function_->mesh.devices(); }
  Type whole(ValueId value) const { return over_devices(function_->types[value], devices()); }

  const PlanId id_;
  const std::shared_ptr<const Function> function_;
  const std::shared_ptr<LocalHosts> on_;
  TestHosts& hosts_;
  TestPlan plan_;
};

// Compares each device's results with the reference.
inline void expect_reference(const Function& f, const std::vector<std::vector<Literal>>& arguments,
                             const std::vector<std::vector<Literal>>& got) {
  const std::vector<std::vector<Literal>> want = interpret_local(f, arguments);
  const std::vector<NodeId> makers = producers(f);
  for (size_t d = 0; d < want.size(); ++d) {
    for (size_t r = 0; r < want[d].size(); ++r) {
      const Node& node = f.nodes[makers[f.results[r]]];
      const Node& op = node.op == Op::reshape ? f.nodes[makers[node.inputs[0]]] : node;
      std::string attrs;
      for (const auto& [name, value] : op.attrs) {
        if (const auto* number = std::get_if<int64_t>(&value))
          attrs += cat(name, "=", *number, " ");
        if (const auto* text = std::get_if<std::string>(&value))
          attrs += cat(name, "=", *text, " ");
      }
      ASSERT_EQ(got[d][r], want[d][r])
          << "device " << d << ", result " << r << ": " << to_string(op.op) << " " << attrs;
    }
  }
}

// A run of rows_that_must_fit() (body_functions.h) whose first device gets five rows at most is
// right; one in which it gets six fails, naming the line, and leaves the devices usable.
inline void expect_overflow_fails_its_run(LocalCall& call, const Function& f) {
  auto arguments = random_arguments(f, tests::test_seed());
  const auto send = [&](std::vector<double> first, std::vector<double> second) {
    arguments[0][1].values = std::move(first);
    arguments[1][1].values = std::move(second);
  };
  for (uint64_t run = 1; run <= 5; run += 2) {
    send({3, 1}, {2, 2});
    expect_reference(f, arguments, call.run(arguments, run));
    send({3, 1}, {3, 1});
    try {
      call.run(arguments, run + 1);
      ADD_FAILURE() << "six rows came";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOverflow) << error.what();
      EXPECT_NE(std::string(error.what()).find("bodies.gw:3"), std::string::npos) << error.what();
    }
  }
}

}  // namespace gangway
