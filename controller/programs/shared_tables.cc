#include "controller/programs/shared_tables.h"

#include <utility>

namespace gangway {
namespace {

// A large compilation does not keep a small one waiting, nor do two of one owner another owner's.
constexpr BackgroundBounds kCompilesAtOnce{.threads_max = 3, .of_one_owner_max = 2};

}  // namespace

SharedTables::SharedTables(Reactor& reactor, Options options, Callbacks callbacks)
    : owner_use(options.owner_bounds),
      slices(hosts, &names),
      quotas(hosts, slices, owner_use, names),
      slice_queue(reactor.clock(), hosts, slices, &quotas),
      objects(hosts),
      background(reactor, "compiler", kCompilesAtOnce),
      plans(reactor, background, hosts, slices,
            {.ready = [this](const PlanRecord& plan) { runs.plan_ready(plan); },
             .gone = [this](PlanId plan) { runs.plan_gone(plan); },
             .states_placed = std::move(callbacks.states_placed)}),
      runs(reactor.clock(), hosts, plans, objects, names,
           {.ended = std::move(callbacks.run_ended),
            .warn = std::move(callbacks.warn),
            .at_sequence_point =
                [this](const SequencePoint& point) { shared_states.at_sequence_point(point); },
            .watched_ended = [this](const RunRecord& run,
                                    bool committed) { shared_states.run_ended(run, committed); }},
           make_policy(options.policy), std::move(options.charge_log)),
      transfers(hosts, plans, slices, objects, names, std::move(callbacks.transfer_ended),
                std::move(options.landings)),
      shared_states(slices, runs, transfers, names) {
  hosts.names().on_forget([this](const std::string& name) { metrics.forget("host", name); });
}

}  // namespace gangway
