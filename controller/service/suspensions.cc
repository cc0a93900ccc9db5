#include "controller/service/suspensions.h"

#include <algorithm>
#include <utility>

#include "controller/resources/quotas.h"

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

// Waits until the program is not being suspended or resumed. Null: it is not suspended.
Suspensions::Program* Suspensions::when_it_stands_still(SessionId id, const StopToken& asker) {
  while (true) {
    const auto found = programs_.find(id);
    if (found == programs_.end()) return nullptr;
    if (!found->second.is_moving) return &found->second;
    wait(changed_, "for a program that is being suspended or resumed", asker);
  }
}

Suspensions::Program& Suspensions::require_there(SessionId id, const char* what) {
  const auto found = programs_.find(id);
  if (found == programs_.end()) throw closed(id, what);
  return found->second;
}

int64_t Suspensions::suspend(SessionId id, const StopToken& asker) {
  if (when_it_stands_still(id, asker) != nullptr) return host_bytes(id);
  if (!clients_.is_open(id)) throw closed(id, "suspend");
  programs_[id];
  tables_.runs.hold(id);
  while (programs_.contains(id) && !is_quiet(id)) changed_.wait("for the runs of a program to end");
  require_there(id, "suspend");
  const Requests requests = requests_of(id, true);
  Moved moved = ask_hosts(requests);
  require_there(id, "suspend");
  if (moved.failed) {
    const Moved back = undo(requests, moved);
    Program& program = require_there(id, "suspend");
    if (back.failed) {
      program.bytes = std::move(moved.bytes);
      stay(program, back);
      throw stays_suspended("suspend", *moved.failed, *back.failed);
    }
    programs_.erase(id);
    changed_.wake_all();
    tables_.runs.let_go_on(id);
    throw Error(*moved.failed);
  }
  Program& program = require_there(id, "suspend");
  program.bytes = std::move(moved.bytes);
  count(program, 1);
  give_back(id, program);
  program.is_moving = false;
  changed_.wake_all();
  return host_bytes(id);
}

void Suspensions::resume(SessionId id, const StopToken& asker) {
  if (when_it_stands_still(id, asker) == nullptr) return;
  Taken taken;
  if (!programs_.at(id).keeps_devices) taken = take(id, programs_.at(id));
  programs_.at(id).is_moving = true;
  const Requests requests = requests_of(id, false);
  const Moved moved = ask_hosts(requests);
  Program& program = require_there(id, "resume");
  if (moved.failed && program.keeps_devices) {
    stay(program, moved);
    throw Error(*moved.failed);
  }
  if (moved.failed) {
    const Moved back = undo(requests, moved);
    require_there(id, "resume");
    if (back.failed) {
      hand_out(id, std::move(taken));
      Moved away = moved;
      std::erase_if(away.bytes, [&](const auto& item) { return back.bytes.contains(item.first); });
      stay(program, away);
      throw stays_suspended("resume", *moved.failed, *back.failed);
    }
    program.is_moving = false;
    changed_.wake_all();
    throw Error(*moved.failed);
  }
  if (!program.keeps_devices) hand_out(id, std::move(taken));
  count(program, -1);
  programs_.erase(id);
  changed_.wake_all();
  tables_.runs.let_go_on(id);
}

// Gives the new reservations to the program's plans and slices.
void Suspensions::hand_out(SessionId id, Taken taken) {
  for (PlanRecord* plan : plans_of(id)) {
    plan->memory = taken.plans[plan->id];
    plan->overlaid = taken.overlaid[plan->id];
  }
  for (SliceRecord* slice : tables_.slices.all_of(id)) slice->states = taken.states[slice->id];
}

// The hosts in `on_devices` have the program's states on devices, the others in host memory. The
// program can't run, and keeps its reservations on devices until it is resumed.
void Suspensions::stay(Program& program, const Moved& on_devices) {
  if (program.is_counted) count(program, -1);
  std::erase_if(program.bytes,
                [&](const auto& item) { return on_devices.bytes.contains(item.first); });
  count(program, 1);
  program.keeps_devices = true;
  program.is_moving = false;
  changed_.wake_all();
}

int64_t Suspensions::host_bytes(SessionId id) const {
  int64_t sum = 0;
  const auto found = programs_.find(id);
  if (found == programs_.end()) return sum;
  for (const auto& [host, bytes] : found->second.bytes) sum += bytes;
  return sum;
}

std::shared_ptr<void> Suspensions::wait_to_compile(SessionId id) {
  while (programs_.contains(id)) changed_.wait("for a suspended program to be resumed");
  ++compiling_[id];
  return {nullptr, [this, id](void*) {
            if (--compiling_[id] == 0) compiling_.erase(id);
            changed_.wake_all();
          }};
}

void Suspensions::look_again() {
  if (!programs_.empty()) changed_.wake_all();
}

void Suspensions::session_closed(SessionId id) {
  const auto found = programs_.find(id);
  if (found == programs_.end()) return;
  if (found->second.is_counted) count(found->second, -1);
  programs_.erase(found);
  changed_.wake_all();
}

// Whether nothing of the program is on its way to devices: compilations, runs, copies of states.
bool Suspensions::is_quiet(SessionId id) const {
  if (compiling_.contains(id)) return false;
  const std::vector<PlanRecord*> plans = tables_.plans.all_of(id);
  if (std::ranges::any_of(plans, [](const PlanRecord* plan) { return plan->in_flight > 0; }))
    return false;
  const std::vector<SliceRecord*> slices = tables_.slices.all_of(id);
  return std::ranges::none_of(
      slices, [&](const SliceRecord* slice) { return tables_.copies.any_of_states(slice->id); });
}

// Plans of the client that are installed and may run.
std::vector<PlanRecord*> Suspensions::plans_of(SessionId id) const {
  std::vector<PlanRecord*> plans = tables_.plans.all_of(id);
  std::erase_if(plans, [](const PlanRecord* plan) {
    return !plan->ready || plan->uninstalled || plan->broken.has_value();
  });
  return plans;
}

Suspensions::Requests Suspensions::requests_of(SessionId id, bool to_host) const {
  Requests requests;
  for (const PlanRecord* plan : plans_of(id)) {
    for (HostId host : plan->hosts) requests[host].plans.push_back(plan->on_hosts);
  }
  for (const SliceRecord* slice : tables_.slices.all_of(id)) {
    for (HostId host : slice->state_hosts) requests[host].scopes.push_back(slice->host_scope);
  }
  for (auto& [host, request] : requests) request.to_host = to_host;
  return requests;
}

// Waits for the answers of all hosts before it returns a refusal. A lost host has nothing to move.
Suspensions::Moved Suspensions::ask_hosts(const Requests& requests) {
  struct Asked {
    HostId host;
    std::string name;
    Future<int64_t> reply;
    StopToken gone;
  };
  std::vector<Asked> asked;
  for (const auto& [id, request] : requests) {
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
Suspensions::Moved Suspensions::undo(Requests requests, const Moved& moved) {
  std::erase_if(requests, [&](const auto& item) { return !moved.bytes.contains(item.first); });
  for (auto& [host, request] : requests) request.to_host = !request.to_host;
  return ask_hosts(requests);
}

void Suspensions::give_back(SessionId id, Program& program) {
  const std::string holder = clients_.holder_name(id);
  for (PlanRecord* plan : plans_of(id)) {
    PlanMemory& memory = program.plans[plan->id];
    if (plan->memory != nullptr) memory.own = std::exchange(plan->memory, nullptr)->held;
    if (plan->overlaid != nullptr) memory.overlaid = std::exchange(plan->overlaid, nullptr)->held;
    // The outputs lay in the plan's own memory until now, so there is room.
    tables_.objects.hold_outputs(id, plan->layouts, [&] {
      const auto short_of = tables_.hosts.reserve(holder, *plan->output_bytes);
      GW_ASSERT(!short_of);
      return std::make_shared<Holding>(tables_.hosts, holder, plan->output_bytes);
    });
  }
  for (SliceRecord* slice : tables_.slices.all_of(id)) {
    for (const auto& held : slice->states) program.states[slice->id].push_back(held->held);
    slice->states.clear();
  }
}

// Looks for room for the whole program at once, so that a refusal says how much is short.
void Suspensions::require_room(SessionId id, const Program& program) {
  std::map<DeviceRef, int64_t> totals;
  for (const PlanRecord* plan : plans_of(id)) {
    const auto memory = program.plans.find(plan->id);
    if (memory != program.plans.end() && memory->second.own != nullptr)
      add_up(totals, *memory->second.own);
  }
  for (const auto& [slice, held] : program.states) {
    if (tables_.slices.find(slice) == nullptr) continue;
    for (const Reservations& states : held) add_up(totals, *states);
  }
  std::vector<Reservation> wanted;
  for (const auto& [at, bytes] : totals) wanted.push_back({{at.host, at.device, 1}, bytes});
  if (const auto short_of = tables_.hosts.lacks(clients_.holder_name(id), wanted))
    throw no_room(*short_of);
}

Error Suspensions::no_room(const Shortage& short_of) const {
  if (!short_of.over_quota.empty())
    return {ErrorKind::kOverloaded, cat("resume: ", short_of.over_quota), {}, kQuotaHint};
  return {ErrorKind::kOverloaded,
          cat("resume: there is no room: ", tables_.hosts.shortage(short_of), "; ",
              tables_.hosts.holders(short_of.at)),
          {},
          "wait until another program has ended, or suspend one"};
}

Suspensions::Taken Suspensions::take(SessionId id, const Program& program) {
  require_room(id, program);
  const std::string holder = clients_.holder_name(id);
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
    const auto short_of = tables_.hosts.reserve(holder, *wanted);
    GW_ASSERT(!short_of);
    keep_hosts(*wanted);
    return std::make_shared<Holding>(tables_.hosts, holder, wanted);
  };
  for (const PlanRecord* plan : plans_of(id)) {
    const auto memory = program.plans.find(plan->id);
    if (memory == program.plans.end()) continue;
    if (memory->second.own != nullptr) taken.plans[plan->id] = hold(memory->second.own);
  }
  for (const auto& [slice, held] : program.states) {
    if (tables_.slices.find(slice) == nullptr) continue;
    for (const Reservations& states : held) taken.states[slice].push_back(hold(states));
  }
  for (const PlanRecord* plan : plans_of(id)) {
    const auto memory = program.plans.find(plan->id);
    if (memory == program.plans.end() || memory->second.overlaid.empty()) continue;
    const std::vector<Reservation>& overlaid = memory->second.overlaid;
    if (const auto short_of = tables_.hosts.reserve_overlaid(holder, overlaid))
      throw no_room(*short_of);
    keep_hosts(overlaid);
    taken.overlaid[plan->id] = std::make_shared<OverlaidHolding>(tables_.hosts, holder, overlaid);
  }
  return taken;
}

void Suspensions::count(Program& program, int64_t sign) {
  program.is_counted = sign > 0;
  for (const auto& [id, bytes] : program.bytes) {
    const HostRecord* const host = tables_.hosts.find(id);
    int64_t& sum = on_hosts_[id];
    sum += sign * bytes;
    if (host != nullptr) {
      tables_.metrics
          .gauge("gangway_suspended_bytes",
                 "Bytes of host memory that hold states of suspended programs",
                 {{"host", host->info.name}})
          .set(sum);
    }
    if (sum == 0) on_hosts_.erase(id);
  }
}

}  // namespace gangway
