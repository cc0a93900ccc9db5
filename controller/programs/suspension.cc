#include "controller/programs/suspension.h"

#include <algorithm>
#include <utility>

#include "controller/owners/quotas.h"

namespace gangway {
namespace {

Error closed(SessionId id, const char* what) {
  return {ErrorKind::kUnavailable, cat(what, ": client ", id, ": its session was closed")};
}

Error stays_suspended(const char* what, const Error& why, const Error& why_not_back) {
  return {why.kind(),
          cat(what, ": ", why.message(),
              "; what had been moved could not be moved back: ", why_not_back.message(),
              ": the program is suspended, and keeps its memory on devices"),
          why.where(), "resume it when there is room, or end it"};
}

void add_up(std::map<DeviceRef, int64_t>& totals, const std::vector<Reservation>& more) {
  for (const Reservation& item : more) {
    for (uint32_t d = item.at.first; d < item.at.first + item.at.count; ++d)
      totals[{item.at.host, d}] += item.bytes;
  }
}

}  // namespace

void Suspension::Shared::count(HostId host, int64_t bytes) {
  const HostRecord* const record = tables_.hosts.find(host);
  int64_t& sum = on_hosts_[host];
  sum += bytes;
  if (record != nullptr) {
    tables_.metrics
        .gauge("gangway_suspended_bytes",
               "Bytes of host memory that hold states of suspended programs",
               {{"host", record->info.name}})
        .set(sum);
  }
  if (sum == 0) on_hosts_.erase(host);
}

// Waits until the program is not being suspended or resumed. Null: it is not suspended.
Suspension::State* Suspension::when_it_stands_still(const StopToken& asker) {
  while (state_ && state_->is_moving)
    wait(shared_.changed_, "for a program that is being suspended or resumed", asker);
  return state_.get();
}

Suspension::State& Suspension::require_there(const char* what) {
  if (!state_) throw closed(program_, what);
  return *state_;
}

int64_t Suspension::suspend(const StopToken& asker) {
  if (when_it_stands_still(asker) != nullptr) return host_bytes();
  if (is_closed_) throw closed(program_, "suspend");
  state_ = std::make_unique<State>();
  tables_.runs.hold(program_);
  while (state_ && !is_quiet()) shared_.changed_.wait("for the runs of a program to end");
  require_there("suspend");
  const Requests to_host = requests(true);
  Moved moved = ask_hosts(to_host);
  require_there("suspend");
  if (moved.failed) {
    const Moved back = undo(to_host, moved);
    State& state = require_there("suspend");
    if (back.failed) {
      state.bytes = std::move(moved.bytes);
      stay(back);
      throw stays_suspended("suspend", *moved.failed, *back.failed);
    }
    end();
    tables_.runs.let_go_on(program_);
    throw Error(*moved.failed);
  }
  State& state = require_there("suspend");
  state.bytes = std::move(moved.bytes);
  count(1);
  give_back();
  state.is_moving = false;
  shared_.changed_.wake_all();
  return host_bytes();
}

void Suspension::resume(const StopToken& asker) {
  if (when_it_stands_still(asker) == nullptr) return;
  Taken taken;
  if (!state_->keeps_devices) taken = take();
  state_->is_moving = true;
  const Requests to_devices = requests(false);
  const Moved moved = ask_hosts(to_devices);
  State& state = require_there("resume");
  if (moved.failed && state.keeps_devices) {
    stay(moved);
    throw Error(*moved.failed);
  }
  if (moved.failed) {
    const Moved back = undo(to_devices, moved);
    require_there("resume");
    if (back.failed) {
      hand_out(std::move(taken));
      Moved away = moved;
      std::erase_if(away.bytes, [&](const auto& item) { return back.bytes.contains(item.first); });
      stay(away);
      throw stays_suspended("resume", *moved.failed, *back.failed);
    }
    state.is_moving = false;
    shared_.changed_.wake_all();
    throw Error(*moved.failed);
  }
  if (!state.keeps_devices) hand_out(std::move(taken));
  count(-1);
  end();
  tables_.runs.let_go_on(program_);
}

// The program is not suspended any more.
void Suspension::end() {
  state_.reset();
  shared_.changed_.wake_all();
}

// Gives the new reservations to the program's plans and slices.
void Suspension::hand_out(Taken taken) {
  for (PlanRecord* plan : plans()) {
    plan->memory = taken.plans[plan->id];
    plan->overlaid = taken.overlaid[plan->id];
  }
  for (SliceRecord* slice : tables_.slices.all_of(program_))
    slice->states = taken.states[slice->id];
}

// The hosts in `on_devices` have the program's states on devices, the others in host memory. The
// program can't run, and keeps its reservations on devices until it is resumed.
void Suspension::stay(const Moved& on_devices) {
  if (state_->is_counted) count(-1);
  std::erase_if(state_->bytes,
                [&](const auto& item) { return on_devices.bytes.contains(item.first); });
  count(1);
  state_->keeps_devices = true;
  state_->is_moving = false;
  shared_.changed_.wake_all();
}

int64_t Suspension::host_bytes() const {
  int64_t sum = 0;
  if (!state_) return sum;
  for (const auto& [host, bytes] : state_->bytes) sum += bytes;
  return sum;
}

std::shared_ptr<void> Suspension::wait_to_compile() {
  while (state_) shared_.changed_.wait("for a suspended program to be resumed");
  ++compiling_;
  return {nullptr, [self = shared_from_this()](void*) {
            --self->compiling_;
            self->shared_.changed_.wake_all();
          }};
}

void Suspension::close() {
  is_closed_ = true;
  if (!state_) return;
  if (state_->is_counted) count(-1);
  end();
}

// Whether nothing of the program is on its way to devices: compilations, runs, copies of states.
bool Suspension::is_quiet() const {
  if (compiling_ > 0) return false;
  const std::vector<PlanRecord*> all = tables_.plans.all_of(program_);
  if (std::ranges::any_of(all, [](const PlanRecord* plan) { return plan->in_flight > 0; }))
    return false;
  const std::vector<SliceRecord*> slices = tables_.slices.all_of(program_);
  return std::ranges::none_of(
      slices, [&](const SliceRecord* slice) { return tables_.transfers.any_of_states(slice->id); });
}

// Plans of the client that are installed and may run.
std::vector<PlanRecord*> Suspension::plans() const {
  std::vector<PlanRecord*> installed = tables_.plans.all_of(program_);
  std::erase_if(installed, [](const PlanRecord* plan) {
    return !plan->ready || plan->uninstalled || plan->broken.has_value();
  });
  return installed;
}

Suspension::Requests Suspension::requests(bool to_host) const {
  Requests wanted;
  for (const PlanRecord* plan : plans()) {
    for (HostId host : plan->hosts) wanted[host].plans.push_back(plan->on_hosts);
  }
  for (const SliceRecord* slice : tables_.slices.all_of(program_)) {
    for (HostId host : slice->state_hosts) wanted[host].scopes.push_back(slice->host_scope);
  }
  for (auto& [host, request] : wanted) request.to_host = to_host;
  return wanted;
}

// Waits for the answers of all hosts before it returns a refusal. A lost host has nothing to move.
Suspension::Moved Suspension::ask_hosts(const Requests& wanted) {
  struct Asked {
    HostId host;
    std::string name;
    Future<int64_t> reply;
    StopToken gone;
  };
  std::vector<Asked> asked;
  for (const auto& [id, request] : wanted) {
    HostRecord* const host = tables_.hosts.find(id);
    if (host == nullptr || host->lost) continue;
    asked.push_back({id, host->info.name, host->peer->move_states(request), host->gone.token()});
  }
  Moved moved;
  for (Asked& one : asked) {
    try {
      const int64_t bytes = one.reply.take(one.gone);
      GW_REQUIRE(bytes >= 0, "host \"", one.name, "\": says that it has moved ", bytes, " bytes");
      moved.bytes[one.host] = bytes;
    } catch (const Error& error) {
      if (one.gone.stop_requested()) continue;
      if (!one.reply.ready()) throw;  // This fiber was cancelled.
      if (!moved.failed) moved.failed = Error(error).add_where({.host = one.name});
    }
  }
  return moved;
}

// A host that can't move states back keeps them where it has just moved them: the next request
// passes over states that are there already.
Suspension::Moved Suspension::undo(Requests wanted, const Moved& moved) {
  std::erase_if(wanted, [&](const auto& item) { return !moved.bytes.contains(item.first); });
  for (auto& [host, request] : wanted) request.to_host = !request.to_host;
  return ask_hosts(wanted);
}

void Suspension::give_back() {
  for (PlanRecord* plan : plans()) {
    PlanMemory& memory = state_->plans[plan->id];
    if (plan->memory != nullptr) memory.own = std::exchange(plan->memory, nullptr)->held;
    if (plan->overlaid != nullptr) memory.overlaid = std::exchange(plan->overlaid, nullptr)->held;
    // The outputs lay in the plan's own memory until now, so there is room.
    tables_.objects.hold_outputs(program_, plan->layouts, [&] {
      const auto short_of = tables_.hosts.reserve(holder_, *plan->output_bytes);
      GW_ASSERT(!short_of);
      return std::make_shared<Holding>(tables_.hosts, holder_, plan->output_bytes);
    });
  }
  for (SliceRecord* slice : tables_.slices.all_of(program_)) {
    for (const auto& held : slice->states) state_->states[slice->id].push_back(held->held);
    slice->states.clear();
  }
}

// Looks for room for the whole program at once, so that a refusal says how much is short.
void Suspension::require_room() const {
  std::map<DeviceRef, int64_t> totals;
  for (const PlanRecord* plan : plans()) {
    const auto memory = state_->plans.find(plan->id);
    if (memory != state_->plans.end() && memory->second.own != nullptr)
      add_up(totals, *memory->second.own);
  }
  for (const auto& [slice, held] : state_->states) {
    if (tables_.slices.find(slice) == nullptr) continue;
    for (const Reservations& states : held) add_up(totals, *states);
  }
  std::vector<Reservation> wanted;
  for (const auto& [at, bytes] : totals) wanted.push_back({{at.host, at.device, 1}, bytes});
  if (const auto short_of = tables_.hosts.lacks(holder_, wanted)) throw no_room(*short_of);
}

Error Suspension::no_room(const Shortage& short_of) const {
  if (!short_of.over_quota.empty())
    return {ErrorKind::kOverloaded, cat("resume: ", short_of.over_quota), {}, kQuotaHint};
  return {ErrorKind::kOverloaded,
          cat("resume: there is no room: ", tables_.hosts.shortage(short_of), "; ",
              tables_.hosts.holders(short_of.at)),
          {},
          "wait until another program has ended, or suspend one"};
}

Suspension::Taken Suspension::take() const {
  require_room();
  Taken taken;
  const auto hosts = std::make_shared<std::vector<HostId>>();
  taken.hosts = std::shared_ptr<void>(nullptr, [&table = tables_.hosts, hosts](void*) {
    for (const HostId host : *hosts) table.drop(host);
  });
  const auto keep_hosts = [&](const std::vector<Reservation>& wanted) {
    for (const Reservation& item : wanted) {
      tables_.hosts.keep(item.at.host);
      hosts->push_back(item.at.host);
    }
  };
  const auto hold = [&](const Reservations& wanted) {
    const auto short_of = tables_.hosts.reserve(holder_, *wanted);
    GW_ASSERT(!short_of);
    keep_hosts(*wanted);
    return std::make_shared<Holding>(tables_.hosts, holder_, wanted);
  };
  for (const PlanRecord* plan : plans()) {
    const auto memory = state_->plans.find(plan->id);
    if (memory == state_->plans.end()) continue;
    if (memory->second.own != nullptr) taken.plans[plan->id] = hold(memory->second.own);
  }
  for (const auto& [slice, held] : state_->states) {
    if (tables_.slices.find(slice) == nullptr) continue;
    for (const Reservations& states : held) taken.states[slice].push_back(hold(states));
  }
  for (const PlanRecord* plan : plans()) {
    const auto memory = state_->plans.find(plan->id);
    if (memory == state_->plans.end() || memory->second.overlaid.empty()) continue;
    const std::vector<Reservation>& overlaid = memory->second.overlaid;
    if (const auto short_of = tables_.hosts.reserve_overlaid(holder_, overlaid))
      throw no_room(*short_of);
    keep_hosts(overlaid);
    taken.overlaid[plan->id] = std::make_shared<OverlaidHolding>(tables_.hosts, holder_, overlaid);
  }
  return taken;
}

void Suspension::count(int64_t sign) {
  state_->is_counted = sign > 0;
  for (const auto& [host, bytes] : state_->bytes) shared_.count(host, sign * bytes);
}

}  // namespace gangway
