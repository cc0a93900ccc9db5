// One call of a local function by the ranks of its mesh, all on one host. The test advances them on
// a clock that it sets, and learns when each ends and how long it waits, by modelled costs. Like a
// device's thread, run() advances a rank again only when it was rung, or at the time at which it
// asked to be woken.
//
// Threads: the test's.
// Ownership: the timer outlives the functions that `make` gives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/collectives/hosts/group_collective.h"
#include "executor/devices/cpu/step_timer.h"
#include "ir/plan/plan.h"
#include "ir/transforms/overlap/moves.h"
#include "ir/types/axis_list.h"
#include "runtime/base/cat.h"
#include "tests/support/bare_device.h"

namespace gangway {

inline constexpr int64_t kUs = 1000;

// A kernel takes `kernel_us`, or no time if it only moves elements or gives a single number; a
// collective takes 10 us; rank r takes `late_ns` longer for step late_step(r).
class RanksTimer final : public StepTimer {
 public:
  int64_t kernel_ns(const Function& function, NodeId id) const override {
    const Node& node = function.nodes[id];
    const bool is_small = function.types[node.first_result].elements() == 1;
    return is_small || only_moves(node) ? 0 : kernel_us * kUs;
  }
  int64_t collective_ns(CollectiveKind, double, const PeerCounts&) const override {
    return 10 * kUs;
  }
  int64_t begin_step(const CallFrame& frame, Turn&, int64_t cost_ns) override {
    return frame.step == late_step(frame.mesh_device) ? cost_ns + late_ns : cost_ns;
  }
  int64_t begin_collective(const CallFrame& frame, Turn&, int64_t cost_ns) override {
    exposed[frame.mesh_device][frame.awaited - 1] += cost_ns;
    return cost_ns;
  }

  int64_t kernel_us = 1;
  std::function<uint32_t(uint32_t rank)> late_step = [](uint32_t) { return kNone; };
  int64_t late_ns = 0;
  // Time that a rank has waited while bytes moved, by rank and by the collective's step.
  std::map<uint32_t, std::map<uint32_t, int64_t>> exposed;
  int64_t exposed_ns(uint32_t rank) const {
    int64_t sum = 0;
    if (!exposed.contains(rank)) return sum;
    for (const auto& [step, ns] : exposed.at(rank)) sum += ns;
    return sum;
  }
};

class TimedRanks {
 public:
  using Make = std::function<std::unique_ptr<CompiledFunction>(const LocalFunction&)>;

  TimedRanks(const Function& f, const Make& make)
      : TimedRanks(LocalFunction{.function = std::make_shared<const Function>(f),
                                 .commit_begin = static_cast<NodeId>(f.nodes.size())},
                   make) {}
  TimedRanks(const LocalFunction& local, const Make& make)
      : ranks_(static_cast<size_t>(local.function->mesh.devices())) {
    const Function& f = *local.function;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.compiled = make(local);
      rank.frame.mesh_device = r;
      rank.frame.end = rank.compiled->step_count();
      const auto add = [&](int64_t bytes) {
        rank.memory.emplace_back(static_cast<size_t>(bytes) / sizeof(double) + 8, 0.0);
        rank.frame.bases.push_back(reinterpret_cast<std::byte*>(rank.memory.back().data()));
      };
      for (ValueId p = 0; p < f.parameters.size(); ++p) add(f.types[p].bytes());
      for (ValueId result : f.results) add(f.types[result].bytes());
      add(rank.compiled->arena_bytes());
    }
    for (const auto& need : ranks_[0].compiled->collective_needs()) {
      for (const auto& members : members_of_groups(f.mesh, axes_of(f.mesh, need.axes)))
        join_group({members.begin(), members.end()}, need.bytes_max);
    }
  }

  // Advances a rank until it ends or waits for a time or for other ranks.
  Progress advance(uint32_t rank, int64_t now_ns = 0) {
    Rank& at = ranks_[rank];
    at.stream.clock_ns = now_ns;
    *at.is_rung = false;
    Turn turn{.stream = at.stream, .now_ns = now_ns};
    const Progress progress = at.compiled->advance(at.frame, turn);
    at.done = progress == Progress::kDone;
    at.wake_ns = at.done ? kNever : turn.wake_at_ns;
    return progress;
  }
  // Runs all ranks on one clock, each as soon as it can, and returns when the last has ended.
  // `looks`: how often a due rank is advanced each time, as if it were rung for other work too.
  int64_t run(int looks = 1) {
    int64_t now_ns = 0;
    for (bool ended = false; !ended;) {
      for (uint32_t r = next_due(now_ns); r < ranks_.size(); r = next_due(now_ns)) {
        for (int look = 0; look < looks && !ranks_[r].done; ++look) advance(r, now_ns);
      }
      ended = std::ranges::all_of(ranks_, &Rank::done);
      const int64_t next_ns = std::ranges::min_element(ranks_, {}, &Rank::wake_ns)->wake_ns;
      if (!ended && next_ns == kNever) {
        ADD_FAILURE() << "all ranks wait for others";
        return -1;
      }
      if (!ended) now_ns = next_ns;
    }
    return now_ns;
  }
  uint32_t step(uint32_t rank) const { return ranks_[rank].frame.step; }
  const CallFrame& frame(uint32_t rank) const { return ranks_[rank].frame; }
  // The collectives that rank 0 has waited for while bytes moved: "all_gather of f32[8, 4]: 10 us".
  std::vector<std::string> exposed(const RanksTimer& timer) const {
    std::vector<std::string> all;
    if (!timer.exposed.contains(0)) return all;
    for (const auto& [step, ns] : timer.exposed.at(0))
      all.push_back(cat(ranks_[0].compiled->describe_step(step).what, ": ", ns / kUs, " us"));
    return all;
  }

 private:
  struct Rank {
    BareStream stream;
    std::unique_ptr<CompiledFunction> compiled;
    std::vector<std::vector<double>> memory;
    std::vector<std::unique_ptr<Collective>> collectives;
    CallFrame frame;
    bool done = false;
    int64_t wake_ns = kNever;
    std::shared_ptr<bool> is_rung = std::make_shared<bool>(true);  // True at first, to begin.

    Bell bell() const {
      return {.function = std::make_shared<const std::function<void()>>(
                  [rung = is_rung] { *rung = true; })};
    }
  };

  // The first rank that is due, or the number of ranks.
  uint32_t next_due(int64_t now_ns) const {
    const auto due = std::ranges::find_if(ranks_, [&](const Rank& rank) {
      return !rank.done && (*rank.is_rung || rank.wake_ns <= now_ns);
    });
    return static_cast<uint32_t>(due - ranks_.begin());
  }

  void join_group(const std::vector<uint32_t>& members, int64_t bytes_max) {
    const auto size = static_cast<uint32_t>(members.size());
    std::vector<Bell> bells;
    for (const uint32_t member : members) bells.push_back(ranks_[member].bell());
    auto rendezvous = std::make_shared<HostRendezvous>(std::move(bells), bytes_max);
    std::vector<uint32_t> numbers(size);
    for (uint32_t m = 0; m < size; ++m) numbers[m] = m;
    for (uint32_t m = 0; m < size; ++m) {
      Rank& rank = ranks_[members[m]];
      rank.collectives.push_back(
          std::make_unique<GroupCollective>(GroupPart{.index = m,
                                                      .ranks = numbers,
                                                      .beside = {m},
                                                      .size = size,
                                                      .bytes_max = bytes_max,
                                                      .rendezvous = rendezvous}));
      rank.frame.collectives.push_back(rank.collectives.back().get());
    }
  }

  std::vector<Rank> ranks_;
};

}  // namespace gangway
