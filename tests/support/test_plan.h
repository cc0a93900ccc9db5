// Plans for tests and benchmarks: one call of a global function over devices of a few hosts, built
// as the controller would build it.
//
// Threads: pure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/plan/plan.h"
#include "ir/transforms/pipeline.h"

namespace gangway {

class TestPlan {
 public:
  // One slice of hosts * devices, with the mesh {data: hosts * devices}.
  TestPlan(std::string name, uint32_t hosts, uint32_t devices) : plan_(std::make_shared<Plan>()) {
    plan_->name = std::move(name);
    PlanSlice slice{mesh_of(hosts * devices), {}};
    for (uint32_t h = 0; h < hosts; ++h) {
      plan_->hosts.push_back("host-" + std::to_string(h));
      slice.ranges.push_back({h, 0, devices});
    }
    plan_->slices = {slice};
  }

  static Mesh mesh_of(uint32_t devices) { return {{{"data", static_cast<int64_t>(devices)}}}; }
  const Mesh& mesh() const { return plan_->slices[0].mesh; }
  Plan& plan() { return *plan_; }
  std::shared_ptr<const Plan> share() const { return plan_; }

  uint32_t value(std::string name, PlanStorage storage, Type type, Sharding sharding = {},
                 uint32_t slice = 0) {
    const Mesh& mesh = plan_->slices[slice].mesh;
    if (sharding.empty()) sharding = replicated(mesh);
    const Type local = *local_type(type, mesh, sharding);
    plan_->values.push_back({std::move(name), storage, slice, type, local, sharding});
    return static_cast<uint32_t>(plan_->values.size()) - 1;
  }
  uint32_t input(std::string name, Type type, Sharding sharding = {}) {
    plan_->inputs.push_back(value(std::move(name), PlanStorage::kInput, type, sharding));
    return plan_->inputs.back();
  }
  uint32_t output(std::string name, Type type, Sharding sharding = {}) {
    plan_->outputs.push_back(value(std::move(name), PlanStorage::kOutput, type, sharding));
    return plan_->outputs.back();
  }
  // Adds a state, filled with `first` at the start.
  uint32_t state(std::string name, Type type, double first) {
    const uint32_t v = value(std::move(name), PlanStorage::kState, type);
    Builder b("init", mesh());
    b.result("value", b.constant(plan_->values[v].local_type, first));
    auto init = std::make_shared<Function>(b.build());
    init->local = true;
    plan_->states.push_back({v, init});
    return v;
  }
  uint32_t function(const Function& global, const CallContext& context = {}) {
    plan_->functions.push_back(compile_function(global, context).local);
    return static_cast<uint32_t>(plan_->functions.size()) - 1;
  }
  uint32_t call(std::string name, uint32_t function, const std::vector<uint32_t>& inputs,
                std::vector<uint32_t> results, uint32_t slice = 0) {
    return node({.kind = PlanNodeKind::kCall,
                 .name = std::move(name),
                 .slice = slice,
                 .function = function,
                 .inputs = {inputs.begin(), inputs.end()},
                 .results = std::move(results)});
  }
  uint32_t gate() { return node({.kind = PlanNodeKind::kGate, .name = "gate"}); }
  uint32_t commit(uint32_t call) {
    return node({.kind = PlanNodeKind::kCommit,
                 .name = "commit",
                 .slice = plan_->nodes[call].slice,
                 .call = call});
  }
  // Adds a send and a receive, and returns the receive.
  uint32_t transfer(uint32_t from, uint32_t to) {
    const uint32_t send = node({.kind = PlanNodeKind::kSend,
                                .name = "transfer",
                                .slice = plan_->values[from].slice,
                                .inputs = {from}});
    plan_->nodes[send].peer = send + 1;
    return node({.kind = PlanNodeKind::kReceive,
                 .name = "transfer",
                 .slice = plan_->values[to].slice,
                 .peer = send,
                 .results = {to}});
  }
  uint32_t node(PlanNode node) {
    plan_->nodes.push_back(std::move(node));
    return static_cast<uint32_t>(plan_->nodes.size()) - 1;
  }

  // y = the sum of the rows of x, a row on each device: one all-reduce of `elements` f32.
  static std::shared_ptr<const Plan> all_reduce(uint32_t hosts, uint32_t devices,
                                                int64_t elements) {
    TestPlan t("all reduce", hosts, devices);
    const Type rows = f32({static_cast<int64_t>(hosts * devices), elements});
    Builder b("sum", t.mesh());
    b.result("y", sum(b.parameter("x", rows, {{"data", shard(0)}}), {0}));
    const uint32_t function = t.function(b.build());
    t.call("sum", function, {t.input("x", rows, {shard(0)})}, {t.output("y", f32({elements}))});
    return t.share();
  }

  // A chain of `calls` calls of x -> x + 1 that alternates between two slices of one device each:
  // device 0 of host 0, and the last device of the last host.
  static std::shared_ptr<const Plan> alternating_chain(uint32_t hosts, uint32_t devices,
                                                       uint32_t calls, Type type = f32()) {
    TestPlan t("alternating", hosts, devices);
    t.plan().slices = {{mesh_of(1), {{0, 0, 1}}}, {mesh_of(1), {{hosts - 1, devices - 1, 1}}}};
    Builder b("next", mesh_of(1));
    Value x = b.parameter("x", type);
    b.result("y", x + 1.0);
    const uint32_t function = t.function(b.build());
    uint32_t now = t.input("x", type);
    for (uint32_t n = 0; n < calls; ++n) {
      const uint32_t slice = n % 2;
      if (n > 0) {
        const uint32_t there = t.value("", PlanStorage::kTemporary, type, {}, slice);
        t.transfer(now, there);
        now = there;
      }
      const bool last = n + 1 == calls;
      const uint32_t next =
          t.value("", last ? PlanStorage::kOutput : PlanStorage::kTemporary, type, {}, slice);
      if (last) t.plan().outputs.push_back(next);
      t.call("next", function, {now}, {next}, slice);
      now = next;
    }
    return t.share();
  }

 private:
  std::shared_ptr<Plan> plan_;
};

}  // namespace gangway
