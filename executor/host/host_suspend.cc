#include "executor/host/host_suspend.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/devices/task.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {

struct StateMoves::Move {
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

StateMoves::StateMoves(Reactor& reactor, HostDevices& devices, StateStore& states,
                       HostBudget& budget, HostPlans& plans, HostRuns& runs)
    : reactor_(reactor),
      devices_(devices),
      states_(states),
      budget_(budget),
      plans_(plans),
      runs_(runs) {}

// Throws if work of a plan of these scopes is unfinished, since it may use their states. This
// includes plans that are being uninstalled.
void StateMoves::require_idle(const MoveRequest& request) const {
  const std::string* const busy = plans_.busy(request);
  if (busy == nullptr) return;
  throw Error(ErrorKind::kUnavailable,
              cat("program \"", *busy, "\": something of it is under way still"),
              {.host = devices_.options.name}, "try again");
}

std::shared_ptr<StateMoves::Move> StateMoves::begin_move(const MoveRequest& request) {
  require_idle(request);
  auto move = std::make_shared<Move>();
  move->to_host = request.to_host;
  for (PlanId id : request.plans) {
    const InstalledPlan* const plan = plans_.find_installed(id);
    if (plan != nullptr && plan->is_suspended() != request.to_host) move->plans.push_back(id);
  }
  for (const StateScope scope : request.scopes) {
    for (const std::shared_ptr<State>& state : states_.all_of(scope)) {
      if ((state->on_host != nullptr) != request.to_host) {
        move->states.push_back({.state = state, .on_host = nullptr, .buffers = {}});
      } else if (state->on_host != nullptr) {
        move->bytes += state->on_host->bytes;
      }
    }
  }
  return move;
}

Future<int64_t> StateMoves::move_to_host(const MoveRequest& request) {
  const std::shared_ptr<Move> move = begin_move(request);
  for (Move::Moved& moved : move->states) {
    moved.on_host = std::make_unique<StateOnHost>();
    StateOnHost& to = *moved.on_host;
    const std::vector<Shard>& shards = moved.state->shards.shards;
    for (const Shard& shard : shards) to.bytes += shard.buffer->bytes();
    to.counted = budget_.take(to.bytes, cat("state \"", moved.state->name, "\"")).take();
    move->bytes += to.bytes;
    for (const Shard& shard : shards) {
      Device& device = *devices_.all[shard.device];
      to.copies.push_back({.bytes = device.stream().discrete()
                                        ? device.memory().host_memory(shard.buffer->bytes())
                                        : nullptr,
                           .error = shard.buffer->error,
                           .rewritten = shard.buffer->rewritten});
    }
  }
  copy_shards(move);
  return move->done.future();
}

Future<int64_t> StateMoves::move_to_devices(const MoveRequest& request) {
  const std::shared_ptr<Move> move = begin_move(request);
  try {
    take_memory(*move);
  } catch (const Error&) {
    leave_again(*move);
    throw;
  }
  copy_shards(move);
  return move->done.future();
}

void StateMoves::take_memory(Move& move) {
  for (PlanId id : move.plans) {
    InstalledPlan& plan = plans_.installed_plan(id);
    plan.return_to_devices(allocate_memory(plan, WithInitialisers::kNo));
  }
  for (Move::Moved& moved : move.states) {
    const std::string what = cat("state \"", moved.state->name, "\"");
    for (const Shard& shard : moved.state->shards.shards) {
      if (shard.buffer == nullptr) {
        const int64_t bytes = block_bytes(moved.state->shards.local.bytes());
        DeviceMemory& memory = devices_.all[shard.device]->memory();
        moved.buffers.push_back(allocate_buffer(memory, bytes, what));
      } else if (Result<void> joined = shard.buffer->join_device(what); !joined.ok()) {
        throw joined.error();
      }
    }
  }
}

// Copies between discrete devices and the host. On other devices there is nothing to copy.
void StateMoves::copy_shards(const std::shared_ptr<Move>& move) {
  for (Move::Moved& moved : move->states) {
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
        turn.stream.copy(to_host ? there : buffer->data(), to_host ? buffer->data() : there,
                         buffer->bytes());
        return Progress::kDone;
      };
      const auto end = [this, guard = runs_.alive,
                        move](const std::shared_ptr<const Error>& failure) {
        reactor_.mailbox().post([this, guard, move, failure] {
          if (*guard) shard_copied(move, failure.get());
        });
      };
      ++move->copying;
      enqueue_task(devices_.all[shards[i].device]->stream(), start, end);
    }
  }
  if (move->copying == 0) end_move(*move);
}

void StateMoves::shard_copied(const std::shared_ptr<Move>& move, const Error* error) {
  if (error != nullptr && !move->error) move->error = *error;
  if (--move->copying == 0) end_move(*move);
}

void StateMoves::end_move(Move& move) {
  if (move.error) {
    if (!move.to_host) leave_again(move);
    move.states.clear();
    return move.done.fail(Error(*move.error).add_where({.host = devices_.options.name}));
  }
  move.to_host ? left_devices(move) : back_on_devices(move);
  move.states.clear();
  move.done.set(std::exchange(move.bytes, 0));
}

// Plans may have been uninstalled meanwhile, and are skipped.
void StateMoves::left_devices(Move& move) {
  for (PlanId id : move.plans) {
    InstalledPlan* const plan = plans_.find_installed(id);
    if (plan == nullptr) continue;
    runs_.drop(*plan);
    plan->leave_devices();
  }
  for (Move::Moved& moved : move.states) {
    for (Shard& shard : moved.state->shards.shards) {
      if (devices_.all[shard.device]->stream().discrete()) {
        shard.buffer = nullptr;
      } else {
        shard.buffer->leave_device();
      }
    }
    moved.state->on_host = std::move(moved.on_host);
  }
}

void StateMoves::back_on_devices(Move& move) {
  for (Move::Moved& moved : move.states) {
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
    InstalledPlan* const plan = plans_.find_installed(id);
    if (plan == nullptr) continue;
    for (const PlanState& state : plan->plan->states) {
      const TensorShards& like = plan->shards[state.value];
      if (like.shards.empty()) continue;
      const auto found = states_.find_like(plan->scope, plan->plan->values[state.value].name, like);
      // Null: its scope was freed meanwhile, and the plan is about to be.
      if (found != nullptr) use_state(*plan, state.value, *found);
    }
    runs_.add(*plan);
  }
}

// The program could not come back: it stays in host memory.
void StateMoves::leave_again(Move& move) {
  for (PlanId id : move.plans) {
    if (InstalledPlan* const plan = plans_.find_installed(id)) plan->leave_devices();
  }
  for (Move::Moved& moved : move.states) {
    for (const Shard& shard : moved.state->shards.shards) {
      if (shard.buffer != nullptr) shard.buffer->leave_device();
    }
  }
}

}  // namespace gangway
