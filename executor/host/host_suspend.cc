// Moves a program off its devices while it is suspended: its states go to host memory, and all else
// that its plans have there is freed. Data with device addresses in it (the frames of its runs) is
// dropped, and built again when the program comes back.
#include <algorithm>
#include <utility>

#include "executor/devices/task.h"
#include "executor/host/host_impl.h"
#include "executor/host/plan_links.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {

struct Host::Impl::StateMove {
  struct Moved {
    std::shared_ptr<State> state;
    std::unique_ptr<StateOnHost> on_host;  // To the host: what the state will have there.
    std::vector<BufferPtr> buffers;        // To discrete devices: the new buffers, by shard.
  };
  bool to_host = true;
  int64_t bytes = 0;  // Host memory of all states of the scopes.
  std::vector<Moved> states;
  std::vector<PlanId> plans;
  size_t copying = 0;  // Shards that are being copied.
  std::optional<Error> error;
  Promise<int64_t> done;
};

// Throws if work of a plan of these scopes is unfinished, since it may use their states. This
// includes plans that are being uninstalled.
void Host::Impl::require_idle(const MoveRequest& request) const {
  for (const HostPlan* made : all_plans()) {
    const bool of_scopes = std::ranges::count(request.scopes, made->scope) > 0;
    const bool is_named = std::ranges::count(request.plans, made->id) > 0;
    if (!of_scopes && !is_named) continue;
    if (made->active > 0 || made->initialising > 0) {
      throw Error(ErrorKind::kUnavailable,
                  cat("program \"", made->plan->name, "\": something of it is under way still"),
                  {.host = devices.options.name}, "try again");
    }
  }
}

std::shared_ptr<Host::Impl::StateMove> Host::Impl::begin_move(const MoveRequest& request) {
  require_idle(request);
  auto move = std::make_shared<StateMove>();
  move->to_host = request.to_host;
  for (PlanId id : request.plans) {
    const auto found = plans.find(id);
    if (found == plans.end() || found->second->stage != PlanStage::kReady) continue;
    if (found->second->suspended != request.to_host) move->plans.push_back(id);
  }
  for (const StateScope scope : request.scopes) {
    for (const std::shared_ptr<State>& state : states.all_of(scope)) {
      if ((state->on_host != nullptr) != request.to_host) {
        move->states.push_back({.state = state, .on_host = nullptr, .buffers = {}});
      } else if (state->on_host != nullptr) {
        move->bytes += state->on_host->bytes;
      }
    }
  }
  return move;
}

Future<int64_t> Host::Impl::move_to_host(const MoveRequest& request) {
  const std::shared_ptr<StateMove> move = begin_move(request);
  for (StateMove::Moved& moved : move->states) {
    moved.on_host = std::make_unique<StateOnHost>();
    StateOnHost& to = *moved.on_host;
    const std::vector<Shard>& shards = moved.state->shards.shards;
    for (const Shard& shard : shards) to.bytes += shard.buffer->bytes();
    to.counted = host_budget.take(to.bytes, cat("state \"", moved.state->name, "\"")).take();
    move->bytes += to.bytes;
    for (const Shard& shard : shards) {
      Device& device = *devices.all[shard.device];
      to.copies.push_back(
          {.bytes = device.discrete() ? device.host_memory(shard.buffer->bytes()) : nullptr,
           .error = shard.buffer->error,
           .rewritten = shard.buffer->rewritten});
    }
  }
  copy_shards(move);
  return move->done.future();
}

Future<int64_t> Host::Impl::move_to_devices(const MoveRequest& request) {
  const std::shared_ptr<StateMove> move = begin_move(request);
  try {
    take_memory(*move);
  } catch (const Error&) {
    leave_again(*move);
    throw;
  }
  copy_shards(move);
  return move->done.future();
}

void Host::Impl::take_memory(StateMove& move) {
  for (PlanId id : move.plans) {
    HostPlan& made = plan(id);
    place_arenas(made);
    for (const auto& device : made.devices) allocate(made, *device);
    place_links(made);
  }
  for (StateMove::Moved& moved : move.states) {
    const std::string what = cat("state \"", moved.state->name, "\"");
    for (const Shard& shard : moved.state->shards.shards) {
      Device& device = *devices.all[shard.device];
      if (shard.buffer == nullptr) {
        const int64_t bytes = block_bytes(moved.state->shards.local.bytes());
        moved.buffers.push_back(allocate_buffer(device.memory(), bytes, what));
      } else if (Result<void> joined = shard.buffer->join_device(what); !joined.ok()) {
        throw joined.error();
      }
    }
  }
}

// Copies between discrete devices and the host. On other devices there is nothing to copy.
void Host::Impl::copy_shards(const std::shared_ptr<StateMove>& move) {
  for (StateMove::Moved& moved : move->states) {
    const std::vector<Shard>& shards = moved.state->shards.shards;
    const StateOnHost& on_host = move->to_host ? *moved.on_host : *moved.state->on_host;
    for (size_t i = 0; i < shards.size(); ++i) {
      const HostMemory host = on_host.copies[i].bytes;
      if (host == nullptr) continue;
      // The move holds the buffer until all are copied. If the task held it, its memory would stay
      // a moment longer than a caller that learns of the end may expect.
      const Buffer* const buffer = (move->to_host ? shards[i].buffer : moved.buffers[i]).get();
      const auto start = [buffer, host, to_host = move->to_host](Turn& turn) {
        void* const there = host.get();
        turn.device.copy(to_host ? there : buffer->data(), to_host ? buffer->data() : there,
                         buffer->bytes());
        return Progress::kDone;
      };
      const auto end = [this, guard = alive, move](const std::shared_ptr<const Error>& failure) {
        reactor.mailbox().post([this, guard, move, failure] {
          if (*guard) shard_copied(move, failure.get());
        });
      };
      ++move->copying;
      enqueue_task(*devices.all[shards[i].device], start, end);
    }
  }
  if (move->copying == 0) end_move(*move);
}

void Host::Impl::shard_copied(const std::shared_ptr<StateMove>& move, const Error* error) {
  if (error != nullptr && !move->error) move->error = *error;
  if (--move->copying == 0) end_move(*move);
}

void Host::Impl::end_move(StateMove& move) {
  if (move.error) {
    if (!move.to_host) leave_again(move);
    move.states.clear();
    return move.done.fail(Error(*move.error).add_where({.host = devices.options.name}));
  }
  move.to_host ? left_devices(move) : back_on_devices(move);
  move.states.clear();
  move.done.set(std::exchange(move.bytes, 0));
}

// Plans may have been uninstalled meanwhile, and are skipped.
void Host::Impl::left_devices(StateMove& move) {
  for (PlanId id : move.plans) {
    const auto found = plans.find(id);
    if (found == plans.end()) continue;
    HostPlan& made = *found->second;
    made.suspended = true;
    drop_runs(made);
    free_memory(made);
    for (const auto& device : made.devices) {
      device->states.assign(device->states.size(), nullptr);
      device->shared_states.clear();
    }
  }
  for (StateMove::Moved& moved : move.states) {
    for (Shard& shard : moved.state->shards.shards) {
      if (devices.all[shard.device]->discrete()) {
        shard.buffer = nullptr;
      } else {
        shard.buffer->leave_device();
      }
    }
    moved.state->on_host = std::move(moved.on_host);
  }
}

void Host::Impl::back_on_devices(StateMove& move) {
  for (StateMove::Moved& moved : move.states) {
    std::vector<Shard>& shards = moved.state->shards.shards;
    for (size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].buffer != nullptr) continue;
      shards[i].buffer = std::move(moved.buffers[i]);
      shards[i].buffer->error = moved.state->on_host->copies[i].error;
      shards[i].buffer->rewritten = moved.state->on_host->copies[i].rewritten;
    }
    moved.state->on_host = nullptr;
  }
  for (PlanId id : move.plans) {
    const auto found = plans.find(id);
    if (found == plans.end()) continue;
    HostPlan& made = *found->second;
    for (const PlanState& state : made.plan->states) {
      const TensorShards& like = made.shards[state.value];
      if (like.shards.empty()) continue;
      const auto found_state =
          states.find_like(made.scope, made.plan->values[state.value].name, like);
      // Null: its scope was freed meanwhile, and the plan is about to be.
      if (found_state != nullptr) use_state(made, state.value, *found_state);
    }
    sort_states(made);
    add_runs(made);
    made.suspended = false;
  }
}

// The program could not come back: it stays in host memory.
void Host::Impl::leave_again(StateMove& move) {
  for (PlanId id : move.plans) {
    if (const auto found = plans.find(id); found != plans.end()) free_memory(*found->second);
  }
  for (StateMove::Moved& moved : move.states) {
    for (const Shard& shard : moved.state->shards.shards) {
      if (shard.buffer != nullptr) shard.buffer->leave_device();
    }
  }
}

}  // namespace gangway
