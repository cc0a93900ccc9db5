#include "controller/scheduler/host_transfers.h"

#include <algorithm>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"

namespace gangway {
namespace {

std::vector<HostId> hosts_of(const std::vector<DeviceRef>& devices) {
  std::vector<HostId> hosts;
  for (const DeviceRef& device : devices) {
    if (!hosts.empty() && hosts.back() == device.host) continue;
    if (std::find(hosts.begin(), hosts.end(), device.host) == hosts.end()) {
      hosts.push_back(device.host);
    }
  }
  return hosts;
}

// Reservations for an array that takes this many bytes on each device.
Reservations reservations(const DeviceLayout& layout, int64_t bytes) {
  std::vector<Reservation> wanted;
  wanted.reserve(layout.ranges.size());
  for (const DeviceRange& range : layout.ranges) wanted.push_back({range, bytes});
  return shared_reservations(std::move(wanted));
}

// If no program of the slice has the state, the hosts report that.
std::vector<HostId> state_holders(const SliceRecord& scope, const std::string& name) {
  const auto found = scope.placed_states.find(name);
  return found == scope.placed_states.end() ? hosts_of(scope.devices)
                                            : found->second.layout->holders;
}

bool is_replicated(const Sharding& sharding) {
  return std::all_of(sharding.begin(), sharding.end(), [](const Placement& placement) {
    return placement.kind == PlacementKind::kReplicate;
  });
}

}  // namespace

// Adds a new array, sharded like an input of a plan, with its memory reserved on all its devices.
// The request gets the plan's name on the hosts.
std::vector<HostId> HostTransfers::create_array(SessionId session, HostTransferFrame& request) {
  PlanRecord& plan = plans_.at(request.plan, session);
  GW_REQUIRE(request.input < plan.plan->inputs.size(), "put: input ", request.input,
             " does not exist");
  const PlanValue& value = plan.plan->values[plan.plan->inputs[request.input]];
  GW_REQUIRE(request.at.bytes == value.type.bytes(), "put: input \"", value.name, "\": expected ",
             to_string(value.type), ", ", value.type.bytes(), " bytes, got ", request.at.bytes);
  ArrayRecord record{.owner = session,
                     .layout = plan.layouts[value.slice],
                     .type = value.type,
                     .mesh = plan.plan->slices[value.slice].mesh,
                     .sharding = value.sharding};
  const DeviceLayout& layout = *record.layout;
  Reservations& wanted = plan.input_bytes[request.input];
  if (wanted == nullptr) wanted = reservations(layout, layout.bytes_on_device(value.local_type));
  const std::string owner = names_.holder(session);
  if (const auto short_of = hosts_.reserve(owner, *wanted)) {
    throw Error(ErrorKind::kOverloaded,
                cat("put: no memory for input \"", value.name, "\": ", hosts_.shortage(*short_of),
                    "; ", hosts_.holders(short_of->at)),
                {}, "let arrays go that nobody needs any more");
  }
  record.holdings = {std::make_shared<Holding>(hosts_, owner, wanted)};
  objects_.add(request.array, std::move(record));
  request.plan = plan.on_hosts;
  return layout.holders;
}

std::vector<HostId> HostTransfers::hosts_for(SessionId session, HostTransferFrame& request) {
  switch (request.kind) {
    case HostTransferKind::kPut: return create_array(session, request);
    case HostTransferKind::kGet: {
      const ArrayRecord& array = objects_.find(request.array, session);
      if (array.failed != nullptr) throw *array.failed;
      GW_REQUIRE(request.at.bytes == array.type.bytes(), "get: expected ", array.type.bytes(),
                 " bytes for ", to_string(array.type), ", got ", request.at.bytes);
      std::vector<HostId> hosts = array.layout->holders;
      if (is_replicated(array.sharding)) hosts.resize(1);  // One copy is all of it.
      return hosts;
    }
    case HostTransferKind::kWriteState:
    case HostTransferKind::kReadState: {
      GW_REQUIRE(request.name.size() <= kTextBytesMax, "state \"",
                 cut(request.name, kQuotedBytesMax), "\": its name is too long: expected at most ",
                 kTextBytesMax, " bytes");
      const SliceRecord& scope = slices_.at(SliceId(request.scope.id), session);
      if (scope.given_up) throw Error(*scope.given_up);
      return state_holders(scope, request.name);
    }
  }
  return {};
}

void HostTransfers::start(SessionId session, HostTransferFrame request) {
  std::vector<HostId> hosts;
  try {
    hosts = hosts_for(session, request);
    for (HostId host : hosts) hosts_.require_alive(host);
  } catch (const Error& error) {
    ended_(session, request.kind, {.request = request.request, .error = error, .is_settled = true});
    return;
  }
  HostTransfer transfer{.session = session,
                        .kind = request.kind,
                        .client_request = request.request,
                        .pending = {hosts.begin(), hosts.end()}};
  if (request.kind == HostTransferKind::kPut || request.kind == HostTransferKind::kGet) {
    transfer.kept = request.array;
    objects_.keep(request.array);
    objects_.began(request.array);
  } else {
    transfer.states = SliceId(request.scope.id);
  }
  send(std::move(transfer), std::move(request));
}

void HostTransfers::transfer_for(SessionId session, const SliceRecord& scope,
                                 HostTransferFrame request, uint64_t tenant, Done done) {
  const std::vector<HostId> hosts = state_holders(scope, request.name);
  try {
    if (scope.given_up) throw Error(*scope.given_up);
    for (HostId host : hosts) hosts_.require_alive(host);
  } catch (const Error& error) {
    return done({.error = error, .is_settled = true});
  }
  HostTransfer transfer{.session = session,
                        .kind = request.kind,
                        .tenant = tenant,
                        .pending = {hosts.begin(), hosts.end()},
                        .states = scope.id,
                        .done = std::move(done)};
  send(std::move(transfer), std::move(request));
}

bool HostTransfers::any_of_states(SliceId slice) const {
  return std::ranges::any_of(transfers_,
                             [&](const auto& item) { return item.second.states == slice; });
}

void HostTransfers::send(HostTransfer transfer, HostTransferFrame request) {
  const uint64_t id = ++last_;
  request.request = id;
  if (transfer.states) request.scope = slices_.find(*transfer.states)->host_scope;
  if (landings_ != nullptr) {
    landings_->begins(id, transfer.tenant == 0 ? id : transfer.tenant,
                      {request.at.segment, request.at.offset, request.at.bytes});
  }
  const Frame frame = encode(request);
  for (HostId host : transfer.pending) hosts_.at(host).peer->send(frame);
  transfers_.emplace(id, std::move(transfer));
}

void HostTransfers::host_done(HostId host, const HostTransferDoneFrame& done) {
  const auto at = transfers_.find(done.request);
  if (at == transfers_.end() || !at->second.pending.contains(host)) return;
  if (done.error && !at->second.error) {
    at->second.error = *done.error;
    at->second.error->add_where({.host = hosts_.at(host).info.name});
  }
  host_finished(done.request, host);
}

void HostTransfers::host_finished(uint64_t id, HostId host) {
  const auto at = transfers_.find(id);
  at->second.pending.erase(host);
  if (!at->second.pending.empty()) return;
  const HostTransfer ended = std::move(at->second);
  transfers_.erase(at);
  if (ended.kept) {
    objects_.ended(*ended.kept);
    objects_.drop(*ended.kept);
  }
  const HostTransferDoneFrame done{
      .request = ended.client_request, .error = ended.error, .is_settled = ended.is_settled};
  if (ended.done) return ended.done(done);
  ended_(ended.session, ended.kind, done);
}

void HostTransfers::host_lost(HostId host, const Error& why) {
  std::vector<uint64_t> hit;
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.pending.contains(host)) hit.push_back(id);
  }
  for (uint64_t id : hit) {
    HostTransfer& transfer = transfers_.at(id);
    transfer.error = why;
    transfer.is_settled = false;
    host_finished(id, host);
  }
}

void HostTransfers::session_closed(SessionId session) {
  // Hosts may still write into the client's segment, which they hold mapped: let them finish.
  for (auto& [id, transfer] : transfers_) {
    if (transfer.session == session)
      transfer.error = Error(ErrorKind::kCancelled, "client is gone");
  }
}

}  // namespace gangway
