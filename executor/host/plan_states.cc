// The states of a plan that is committed: those that it shares, and those that it creates.
#include <algorithm>
#include <utility>

#include "executor/devices/task.h"
#include "executor/host/host_plans.h"
#include "runtime/base/error.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {
namespace {

// A user's kernel, or a library below one, may throw; the device's thread may not.
Progress advance_initialiser(const CompiledFunction& function, CallFrame& frame, Turn& turn) {
  try {
    return function.advance(frame, turn);
  } catch (...) {
    Error error = current_error();
    error.add_where({.at = function.describe_step(frame.step).at});
    frame.error = std::make_shared<const Error>(std::move(error));
    return Progress::kDone;
  }
}

// The controller installs plans of one scope one after another, but it may uninstall a plan that it
// refused only after it has installed the next one.
Error state_not_usable(const std::string& name, const char* why) {
  return {ErrorKind::kUnavailable, cat("state \"", name, "\": ", why), {}, "compile again"};
}

}  // namespace

void HostPlans::add_states(InitialisingPlan& installing) {
  InstalledPlan& plan = *installing.plan;
  for (uint32_t s = 0; s < plan.plan->states.size(); ++s) {
    const uint32_t value = plan.plan->states[s].value;
    const std::string& name = plan.plan->values[value].name;
    const TensorShards& like = plan.shards[value];
    if (like.shards.empty()) continue;
    std::shared_ptr<State> state = states_.find_like(plan.scope, name, like);
    if (state == nullptr) {
      state = add_state(installing, s, like);
    } else {
      if (state->on_host != nullptr) throw state_not_usable(name, "its program is suspended");
      share_state(state);
    }
    use_state(plan, value, *state);
  }
}

std::shared_ptr<State> HostPlans::add_state(InitialisingPlan& installing, size_t s,
                                            TensorShards shards) {
  InstalledPlan& plan = *installing.plan;
  const std::string& name = plan.plan->values[plan.plan->states[s].value].name;
  if (plan.inits[s].empty())
    throw state_not_usable(name, "went away while its program was installed");
  auto state = std::make_shared<State>(State{name, std::move(shards)});
  for (Shard& shard : state->shards.shards) {
    shard.buffer =
        allocate_buffer(devices_.all[shard.device]->memory(),
                        block_bytes(state->shards.local.bytes()), cat("state \"", name, "\""));
  }
  states_.add(plan.scope, state);
  plan.added.push_back(state);
  initialise(installing, s, state);
  return state;
}

// Another plan uses the state from now on.
void HostPlans::share_state(const std::shared_ptr<State>& state) {
  for (auto& [id, stage] : plans_) {
    InstalledPlan* const creator = plan_with_memory(stage);
    if (creator == nullptr) continue;
    const auto found = std::ranges::find(creator->added, state);
    if (found == creator->added.end()) continue;
    if (std::holds_alternative<std::unique_ptr<InitialisingPlan>>(stage))
      throw state_not_usable(state->name, "another program still initialises it");
    creator->added.erase(found);
  }
}

void HostPlans::drop_states(InstalledPlan& plan) {
  for (const auto& state : plan.added) states_.remove(plan.scope, state);
  plan.added.clear();
}

// Enqueues initialisers in stream order; they use the plan's arena, since no run of the plan has
// begun.
void HostPlans::initialise(InitialisingPlan& installing, size_t s,
                           const std::shared_ptr<State>& target) {
  for (const auto& device : installing.plan->devices) {
    const LaidOutShare& share = device->laid;
    const Shard* shard = target->shards.on(share.member.device, share.member.rank);
    if (shard == nullptr) continue;
    auto frame = std::make_shared<CallFrame>();
    frame->bases = {shard->buffer->data(), device->memory->arena->data()};
    frame->mesh_device = shard->mesh_device;
    const auto& init = installing.plan->inits[s].at(share.device->compiler().family());
    frame->end = init->step_count();
    const auto arena = std::make_shared<BufferPtr>(device->memory->arena);
    const auto start = [frame, function = init, arena](Turn& turn) {
      return advance_initialiser(*function, *frame, turn);
    };
    const auto end = [this, guard = runs_.alive, &installing, frame, name = target->name, arena,
                      buffer = shard->buffer](const std::shared_ptr<const Error>& failure) {
      arena->reset();  // Its last use, if the plan is overlaid.
      buffer->error = frame->error != nullptr ? frame->error : failure;
      reactor_.mailbox().post([this, guard, &installing, name, error = buffer->error] {
        if (*guard) initialised(installing, name, error.get());
      });
    };
    ++installing.running;
    // One after another: they share the plan's arena.
    enqueue_task(share.device->stream(), start, end, {.rank_stream = &device->rank_stream});
  }
}

// A plan that was uninstalled meanwhile stays until its last initialiser has left its stream.
void HostPlans::initialised(InitialisingPlan& installing, const std::string& state,
                            const Error* error) {
  if (error != nullptr && !installing.failed) {
    installing.failed = Error(
        error->kind(), cat("state \"", state, "\": its initialiser failed: ", error->message()),
        error->where(), error->hint());
    installing.failed->add_where(
        {.program = installing.plan->plan->name, .node = state, .host = devices_.options.name});
  }
  if (--installing.running > 0) return;
  if (installing.is_closing) return erase_closed();
  end_commit(installing);
}

// The plan is ready, or stays unusable until it is uninstalled.
void HostPlans::end_commit(InitialisingPlan& installing) {
  if (installing.failed) {
    drop_states(*installing.plan);
    return installing.committed.fail(*installing.failed);
  }
  for (const auto& device : installing.plan->devices) {
    if (device->laid.region != nullptr) device->memory->arena = nullptr;
  }
  Promise<void> committed = std::move(installing.committed);
  std::unique_ptr<InstalledPlan> is_ready = std::move(installing.plan);
  Stage& stage = at(is_ready->id);
  stage.emplace<std::unique_ptr<InstalledPlan>>(std::move(is_ready));
  committed.set();
}

}  // namespace gangway
