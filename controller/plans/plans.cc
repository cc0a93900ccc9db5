#include "controller/plans/plans.h"

#include <algorithm>
#include <utility>

#include "controller/owners/quotas.h"
#include "controller/plans/does_not_fit.h"
#include "controller/plans/held_bytes.h"
#include "controller/plans/plan_links.h"
#include "controller/plans/reports.h"
#include "ir/graph/node_count.h"
#include "ir/plan/plan_text.h"
#include "ir/plan/plan_wire.h"
#include "ir/plan/rates.h"
#include "ir/plan/rows_overflow.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

// The devices of a slice as ranges over the hosts of the plan. Adds hosts that are new.
std::vector<PlanRange> ranges_of(const std::vector<DeviceRef>& devices,
                                 std::vector<HostId>& hosts) {
  std::vector<PlanRange> ranges;
  for (const DeviceRef& device : devices) {
    auto at = std::find(hosts.begin(), hosts.end(), device.host);
    if (at == hosts.end()) at = hosts.insert(hosts.end(), device.host);
    const uint32_t host = static_cast<uint32_t>(at - hosts.begin());
    if (!ranges.empty() && ranges.back().host == host &&
        ranges.back().first + ranges.back().count == device.device) {
      ++ranges.back().count;
    } else {
      ranges.push_back({host, device.device, 1});
    }
  }
  return ranges;
}

// The kind by whose rates the slice's calls are cut: the slowest of several.
std::string kind_of(const std::vector<DeviceRef>& devices, HostTable& hosts) {
  std::string slowest;
  for (const DeviceRef& device : devices) {
    const std::string& kind = hosts.at(device.host).info.kind;
    if (slowest.empty() || rates_of(kind).flops_per_s < rates_of(slowest).flops_per_s)
      slowest = kind;
  }
  return slowest;
}

// Numbers of the machines that the hosts are on; empty if there is only one.
std::vector<uint32_t> machines_of(const std::vector<HostId>& hosts, HostTable& table) {
  std::map<std::string, uint32_t> numbers;
  std::vector<uint32_t> machines;
  for (const HostId host : hosts) {
    const auto next = static_cast<uint32_t>(numbers.size());
    machines.push_back(numbers.try_emplace(table.at(host).info.machine, next).first->second);
  }
  return numbers.size() > 1 ? machines : std::vector<uint32_t>{};
}

Reservations output_bytes(const PlanRecord& record) {
  std::map<DeviceRange, int64_t> bytes;
  for (uint32_t output : record.plan->outputs) {
    const PlanValue& value = record.plan->values[output];
    const DeviceLayout& layout = *record.layouts[value.slice];
    for (const DeviceRange& range : layout.ranges)
      bytes[range] += layout.bytes_on_device(value.local_type);
  }
  std::vector<Reservation> wanted;
  wanted.reserve(bytes.size());
  for (const auto& [range, amount] : bytes) wanted.push_back({range, amount});
  return shared_reservations(std::move(wanted));
}

DeviceLayout layout_of(const SliceRecord& slice, const std::vector<PlanRange>& ranges,
                       const std::vector<HostId>& hosts) {
  DeviceLayout layout{
      .devices = slice.devices, .ranks_per_device = slice.ranks_per_device, .hosts = hosts};
  for (const PlanRange& range : ranges) {
    const HostId host = hosts[range.host];
    layout.ranges.push_back({host, range.first, range.count});
    if (std::ranges::find(layout.holders, host) == layout.holders.end())
      layout.holders.push_back(host);
  }
  return layout;
}

// Extends the reservation before it where that has equal bytes and ends at the device before.
void add_reservation(std::vector<Reservation>& to, DeviceRef at, int64_t bytes) {
  if (bytes == 0) return;
  if (!to.empty() && to.back().bytes == bytes && to.back().at.host == at.host &&
      to.back().at.first + to.back().at.count == at.device) {
    ++to.back().at.count;
  } else {
    to.push_back({{at.host, at.device, 1}, bytes});
  }
}

// Results of lowering a program, all that takes long; made on a thread.
struct Lowered {
  size_t held_bytes = 0;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Positions> positions;
  std::vector<std::byte> bytes;  // The plan's wire form.
  std::string text;
  bool may_overflow = false;
};

// Belongs to the reactor's thread, as do the objects that it holds.
using Tell = std::function<void(const CompileStage&)>;

// Whether the refusal says what the host lacks, which another host may have.
bool is_hosts_own(const Error& refusal) {
  return refusal.kind() == ErrorKind::kInvalid || refusal.kind() == ErrorKind::kOverloaded;
}

// A host refuses what an earlier controller had installed. A refusal that names the user's line is
// about an op, and stays as long as the host does. One without a line is about a text, which may be
// there again later, or about memory: the caller that brings the program back is to try once more.
Error seen_behind_restart(const Error& refusal, const std::string& host, bool has_texts) {
  Where where = refusal.where();
  where.host = host;
  const bool may_be_of_text = has_texts && where.at.empty();
  const bool stays = refusal.kind() == ErrorKind::kInvalid && !may_be_of_text;
  return {stays ? ErrorKind::kInvalid : ErrorKind::kUnavailable, refusal.message(), where,
          refusal.hint()};
}

void require_wanted(const std::atomic<bool>& unwanted) {
  if (unwanted.load(std::memory_order_relaxed))
    throw Error(ErrorKind::kCancelled, "compile: nobody waits for it any more");
}

// Ends a lowering that nobody waits for any more, and reports its progress where somebody asked for
// that: once for each stage except the last, which is the installation. Called on the thread that
// lowers; in a simulation that is the reactor's, which is told at once.
class ProgressTeller {
 public:
  ProgressTeller(Reactor& reactor, std::shared_ptr<const std::atomic<bool>> unwanted,
                 const std::shared_ptr<const Tell>& tell)
      : reactor_(reactor), unwanted_(std::move(unwanted)), tells_(tell != nullptr), tell_(tell) {}

  void operator()(const LowerProgress& at) {
    require_wanted(*unwanted_);
    if (!tells_) return;
    constexpr size_t kLast = kCompileStagesMax - 2;
    const size_t stage = at.total == 0 ? kLast : std::min(kLast, kLast * at.done / at.total);
    if (stage == reported_) return;
    reported_ = stage;
    tell({cat(at.function, ": ", at.pass), static_cast<double>(stage) / (kCompileStagesMax - 1)});
  }

 private:
  void tell(CompileStage stage) {
    const auto report = [tell = tell_, stage = std::move(stage)] {
      if (const auto to = tell.lock()) (*to)(stage);
    };
    if (reactor_.simulated()) return report();
    reactor_.mailbox().post(report);
  }

  Reactor& reactor_;
  std::shared_ptr<const std::atomic<bool>> unwanted_;
  bool tells_;
  std::weak_ptr<const Tell> tell_;
  size_t reported_ = ~size_t{0};
};

// Suspends for as long as lowering the program takes in a simulation, where it takes no time
// itself. It suspends in parts, and notices between them that nobody waits for it any more.
void pace(Pacer& pacer, const Program& program, const std::atomic<bool>& unwanted) {
  NodeCount count;
  for (const auto& function : program.functions) count.add(*function);
  const size_t nodes = program.nodes.size() + count.nodes();
  for (size_t done = 0; done < nodes;) {
    require_wanted(unwanted);
    const size_t part = std::min(nodes - done, nodes / kCompileStagesMax + 1);
    pacer.compile(part);
    done += part;
  }
}

// Suspends until the host has answered, with a result or an error, or is lost.
void settle(const Future<Installed>& reply, const StopToken& gone) {
  try {
    reply.await(gone);
  } catch (const Error&) {
    if (!reply.ready() && !gone.stop_requested()) throw;  // This fiber was cancelled.
  }
}

std::vector<HostTexts> texts_found(const PlanRecord& record,
                                   const std::vector<Installed>& installed) {
  std::vector<HostTexts> found;
  for (size_t h = 0; h < installed.size(); ++h)
    found.push_back({record.plan->hosts[h], installed[h].texts});
  return found;
}

}  // namespace

PlanRecord PlanTable::place(SessionId owner, const Program& program,
                            const std::vector<SliceId>& slices, LowerOptions& options) {
  GW_REQUIRE(slices.size() == program.slices.size(), "compile: program \"", program.name, "\" has ",
             program.slices.size(), " slices, got ", slices.size());
  PlanRecord record{.owner = owner, .slices = slices};
  for (size_t i = 0; i < slices.size(); ++i) {
    const SliceRecord& slice = *slices_.find(slices[i]);
    const Mesh& mesh = program.slices[i].mesh;
    const auto devices = static_cast<int64_t>(slice.devices.size());
    GW_REQUIRE(mesh.devices() == devices * slice.ranks_per_device, "compile: slice \"",
               program.slices[i].name, "\" of program \"", program.name, "\" is a mesh ",
               to_string(mesh), " of ", mesh.devices(), " devices, the allocated slice has ",
               devices * slice.ranks_per_device,
               slice.ranks_per_device == 1
                   ? std::string()
                   : cat(": ", slice.ranks_per_device, " ranks on each of ", devices, " devices"));
    for (const DeviceRef& device : slice.devices) hosts_.require_alive(device.host);
    options.slices.push_back(ranges_of(slice.devices, record.hosts));
    options.ranks_per_device.push_back(slice.ranks_per_device);
    options.kinds.push_back(kind_of(slice.devices, hosts_));
  }
  record.kinds = options.kinds;
  for (HostId host : record.hosts) {
    options.hosts.push_back(hosts_.at(host).info.name);
    options.islands.push_back(hosts_.island_of(host));
  }
  options.machines = machines_of(record.hosts, hosts_);
  for (size_t i = 0; i < slices.size(); ++i) {
    record.layouts.push_back(std::make_shared<const DeviceLayout>(
        layout_of(*slices_.find(slices[i]), options.slices[i], record.hosts)));
  }
  record.scope = slices[0].value;
  record.version = slices_.find(slices[0])->version;
  record.scope_runs = slices_.find(slices[0])->runs;
  return record;
}

// Refuses a program that names a lost state: it would begin with its first value again, and that is
// not the value that the state had come to.
void PlanTable::require_states(const Program& program, const SliceRecord& slice) {
  if (slice.lost_states.empty() && !slice.given_up) return;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kState) continue;
    if (slice.given_up) throw Error(*slice.given_up);
    if (!slice.lost_states.contains(node.name)) continue;
    throw Error(ErrorKind::kUnavailable,
                cat("compile: program \"", program.name, "\": state \"", node.name,
                    "\" is lost: no executable had it when a host of the slice was lost, or its "
                    "controller was started again"),
                {.program = program.name},
                "give it another name to begin with its first value, or allocate a new slice and "
                "restore states from a checkpoint");
  }
}

// Returns the plan's wire form.
std::vector<std::byte> PlanTable::lower(PlanRecord& record, std::shared_ptr<const Program> program,
                                        LowerOptions options, const CompileRequest& request) {
  // Whatever ends this fiber's wait, the thread need not go on.
  struct UnwantedBehind {
    ~UnwantedBehind() { flag->store(true, std::memory_order_relaxed); }
    std::shared_ptr<std::atomic<bool>> flag;
  } const unwanted{record.unwanted};
  const auto tell =
      request.on_progress ? std::make_shared<const Tell>(request.on_progress) : nullptr;
  options.on_progress = ProgressTeller(reactor_, record.unwanted, tell);
  if (request.pacer != nullptr) pace(*request.pacer, *program, *record.unwanted);
  std::shared_ptr<Lowered> lowered = background_.run(
      record.is_of.name,
      [program = std::move(program), options = std::move(options), cache = cache_] {
        auto created = std::make_shared<Lowered>();
        created->plan = std::make_shared<const Plan>(gangway::lower(*program, options, *cache));
        created->positions = std::make_shared<const Positions>(*created->plan);
        created->bytes = to_wire(*created->plan);
        created->text = to_text(*created->plan);
        created->held_bytes = held_bytes(*created->plan) + created->text.size();
        created->may_overflow = may_overflow(*program);
        return created;
      });
  record.plan = std::move(lowered->plan);
  record.positions = std::move(lowered->positions);
  record.text = std::move(lowered->text);
  record.lowered_bytes = lowered->held_bytes;
  record.has_commit = has_commit(*record.plan);
  record.may_overflow = lowered->may_overflow;
  record.output_bytes = output_bytes(record);
  require_reports(record, hosts_);
  return std::move(lowered->bytes);
}

PlanRecord& PlanTable::compile(SessionId owner, const std::string& holder_name,
                               std::shared_ptr<const Program> program,
                               const std::vector<SliceId>& slices, CompileRequest request) {
  LowerOptions options{.runs_in_flight_max = request.runs_in_flight_max,
                       .dispatch = request.dispatch,
                       .overlaid = request.overlaid};
  for (SliceId slice : slices) static_cast<void>(slices_.at(slice, owner));
  if (!slices.empty()) require_states(*program, *slices_.find(slices[0]));
  PlanRecord placed = place(owner, *program, slices, options);
  const std::string name = program->name;
  const PlanId id(++last_);
  placed.id = id;
  placed.on_hosts = id;
  placed.program = program;
  placed.runs_in_flight_max = request.runs_in_flight_max;
  placed.dispatch = request.dispatch;
  placed.overlays = request.overlaid;
  placed.is_of = request.owner;
  placed.held = std::move(request.held);
  placed.states_since = request.states_since;
  for (SourceText& text : request.texts) placed.texts.push_back({std::move(text), {}});
  PlanRecord& record = plans_.emplace(id, std::move(placed)).first->second;
  for (SliceId slice : slices) slices_.keep(slice);
  record.runs = 1;  // Keeps it while this fiber is suspended, whatever its client does.
  std::optional<Error> failed;
  try {
    const std::vector<std::byte> bytes =
        lower(record, std::move(program), std::move(options), request);
    record.held.grow(record.lowered_bytes, "compile");
    if (!record.broken && !record.released) {
      if (request.on_progress)
        request.on_progress({cat("installing on ", record.hosts.size(), " hosts"), 1});
      install_in_turn(record, bytes, holder_name);
    }
  } catch (const Error& error) {
    failed = error;
  }
  record.runs = 0;
  if (record.broken && (!failed || failed->kind() == ErrorKind::kCancelled)) failed = record.broken;
  if (!failed && record.released)
    failed = Error(ErrorKind::kCancelled, "compile: the client is gone");
  if (failed && record.refused_by && request.states_since)
    failed = seen_behind_restart(*failed, hosts_.at(*record.refused_by).info.name,
                                 !request.texts.empty());
  if (failed) {
    record.released = true;
    uninstall_if_unused(id);
    throw failed->add_where({.program = name});
  }
  announce(record);
  return record;
}

// Called once the plan is installed on all its hosts.
void PlanTable::announce(PlanRecord& record) {
  record.ready = true;
  const SliceId scope(record.scope);
  slices_.hold_states(scope, std::move(record.states), record.hosts);
  std::map<std::string, StackedLayers> stacked;
  for (const ProgramNode& node : record.program->nodes)
    if (node.stacked) stacked.emplace(node.name, *node.stacked);
  if (!record.states_since) record.states_since = last_ahead(record);
  bool is_any_new = false;
  for (const PlanState& state : record.plan->states) {
    const PlanValue& value = record.plan->values[state.value];
    const auto layers = stacked.find(value.name);
    const bool is_new =
        slices_.place_state(scope, value.name,
                            {record.layouts[value.slice], value.type,
                             layers == stacked.end() ? std::nullopt : std::optional(layers->second),
                             *record.states_since});
    is_any_new = is_any_new || is_new;
  }
  if (is_any_new && watch_.states_placed) watch_.states_placed(scope);
  if (watch_.ready) watch_.ready(record);
}

// The version that its states reach, at the latest, by the runs that were submitted so far.
StateVersion PlanTable::last_ahead(const PlanRecord& record) const {
  uint64_t version = record.version->value;
  for (const auto& [id, plan] : plans_) {
    if (plan.scope == record.scope && plan.ready && plan.has_commit)
      version += static_cast<uint64_t>(plan.runs);
  }
  return StateVersion(version);
}

void PlanTable::take_down(PlanRecord& record) {
  GW_ASSERT(record.runs == 0, "plan ", record.id, " has runs");
  uninstall(record);
  record.memory = record.states = record.initialisers = nullptr;
  record.overlaid = nullptr;
}

void PlanTable::install_again(PlanRecord& record, std::shared_ptr<const Program> program,
                              const std::string& holder_name) {
  take_down(record);
  const PlanId id = record.id;
  const CompileRequest request{.runs_in_flight_max = record.runs_in_flight_max,
                               .dispatch = record.dispatch,
                               .overlaid = record.overlays};
  LowerOptions options{.runs_in_flight_max = request.runs_in_flight_max,
                       .dispatch = request.dispatch,
                       .overlaid = request.overlaid};
  record.ready = false;
  record.is_moving = true;
  record.refused_by.reset();
  record.short_of.reset();
  record.runs = 1;
  std::optional<Error> failed;
  try {
    PlanRecord placed = place(record.owner, *program, record.slices, options);
    record.broken.reset();
    record.unwanted = std::make_shared<std::atomic<bool>>(false);
    record.on_hosts = PlanId(++last_);
    record.program = program;
    record.hosts = std::move(placed.hosts);
    record.layouts = std::move(placed.layouts);
    record.kinds = std::move(placed.kinds);
    record.needs.clear();
    record.writes_to.clear();
    record.input_bytes.clear();
    record.prepared = 0;
    record.failed.clear();
    record.output_sets = std::make_shared<int64_t>(0);
    const std::vector<std::byte> bytes =
        lower(record, std::move(program), std::move(options), request);
    if (!record.broken && !record.released) install_in_turn(record, bytes, holder_name);
  } catch (const Error& error) {
    failed = error;
  }
  record.runs = 0;
  record.is_moving = false;
  if (record.broken && (!failed || failed->kind() == ErrorKind::kCancelled)) failed = record.broken;
  if (!failed && record.released)
    failed = Error(ErrorKind::kCancelled, "compile: the client is gone");
  if (!failed) {
    record.comes_with_next_run = false;
    return announce(record);
  }
  uninstall(record);
  record.ready = true;  // Runs may name it, and are refused.
  if (!record.broken) record.broken = *failed;
  uninstall_if_unused(id);
  throw Error(*failed);
}

// Plans of a scope share states: these are there and filled, or gone again, before the next plan.
void PlanTable::install_in_turn(PlanRecord& record, const std::vector<std::byte>& bytes,
                                const std::string& holder_name) {
  SliceRecord& slice = *slices_.find(SliceId(record.scope));
  while (!slice.installing.ready()) Future<void>(slice.installing).await();
  Promise<void> installed;
  slice.installing = installed.future();
  try {
    install(record, bytes, holder_name);
  } catch (...) {
    installed.set();
    throw;
  }
  installed.set();
}

std::vector<Installed> PlanTable::ask_hosts(PlanRecord& record,
                                            const std::vector<std::byte>& bytes) {
  record.uninstalled = false;
  record.refused_by.reset();
  const auto gone = [this](HostId host) { return hosts_.at(host).gone.token(); };
  const StateScope scope = slices_.find(SliceId(record.scope))->host_scope;
  const std::vector<SourceText> texts = texts_of(record.texts);
  std::vector<Future<Installed>> replies;
  replies.reserve(record.hosts.size());
  for (uint32_t i = 0; i < record.hosts.size(); ++i) {
    replies.push_back(
        peer(record.hosts[i]).install(record.on_hosts, bytes, i, scope, record.is_of, texts));
  }
  // All hosts answer before one's refusal counts: an uninstall, which is a frame, could overtake an
  // install that is under way, and leave it there for good.
  for (uint32_t i = 0; i < replies.size(); ++i) settle(replies[i], gone(record.hosts[i]));
  std::vector<Installed> installed;
  for (uint32_t i = 0; i < replies.size(); ++i) {
    if (replies[i].ready() && !replies[i].result().ok() &&
        is_hosts_own(replies[i].result().error()))
      record.refused_by = record.hosts[i];
    installed.push_back(replies[i].take(gone(record.hosts[i])));
  }
  return installed;
}

void PlanTable::install(PlanRecord& record, const std::vector<std::byte>& bytes,
                        const std::string& holder_name) {
  std::vector<Installed> installed = ask_hosts(record, bytes);
  if (record.texts.empty()) {
    record.texts = fix_texts(texts_found(record, installed));
    // A text may have grown while hosts read it: they read no further than the shortest of them.
    if (other_text(record.texts, texts_found(record, installed))) {
      uninstall(record);
      record.on_hosts = PlanId(++last_);
      installed = ask_hosts(record, bytes);
    }
  }
  if (const auto other = other_text(record.texts, texts_found(record, installed))) {
    record.refused_by = record.hosts[other->host];
    throw Error(other->why);
  }
  note_links(record, installed);
  for (Installed& reply : installed) record.needs.push_back(std::move(reply.needs));
  reserve(record, holder_name);
  on_all_hosts(record, [&](ExecutorPeer& to, size_t host) {
    return to.link(record.on_hosts, offers_for(record, installed, host));
  });
  on_all_hosts(record,
               [&](ExecutorPeer& to, size_t) { return to.commit_install(record.on_hosts); });
  record.initialisers = nullptr;
}

void PlanTable::on_all_hosts(const PlanRecord& record,
                             const std::function<Future<void>(ExecutorPeer&, size_t)>& step) {
  std::vector<Future<void>> done;
  done.reserve(record.hosts.size());
  for (size_t i = 0; i < record.hosts.size(); ++i) done.push_back(step(peer(record.hosts[i]), i));
  for (size_t i = 0; i < done.size(); ++i) done[i].await(hosts_.at(record.hosts[i]).gone.token());
}

ExecutorPeer& PlanTable::peer(HostId host) {
  hosts_.require_alive(host);
  return *hosts_.at(host).peer;
}

PlanTable::Wanted PlanTable::wanted(const PlanRecord& record) {
  Wanted all;
  for (size_t i = 0; i < record.needs.size(); ++i) {
    for (const DeviceNeed& need : record.needs[i]) {
      const DeviceRef at{record.hosts[i], need.device};
      GW_REQUIRE(need.device < hosts_.at(at.host).info.devices &&
                     std::min({need.arena, need.state, need.slots, need.overlaid}) >= 0,
                 "host \"", record.plan->hosts[i],
                 "\": says what a device needs that it does not have");
      add_reservation(all.states, at, need.state);
      add_reservation(all.others, at, need.slots + (need.overlaid > 0 ? 0 : need.arena));
      add_reservation(all.initialisers, at, need.overlaid > 0 ? need.arena : 0);
      add_reservation(all.overlaid, at, need.overlaid);
    }
  }
  return all;
}

std::vector<Reservation> PlanTable::Wanted::its_own() const {
  std::vector<Reservation> own = others;
  own.insert(own.end(), states.begin(), states.end());
  own.insert(own.end(), initialisers.begin(), initialisers.end());
  return own;
}

PlanTable::Room PlanTable::room_for(const std::vector<const PlanRecord*>& plans,
                                    const std::string& holder_name) {
  std::map<DeviceRef, int64_t> totals;
  std::vector<Reservation> overlaid;
  for (const PlanRecord* plan : plans) {
    for (const HostId host : plan->hosts) {
      const HostRecord* const there = hosts_.find(host);
      if (there == nullptr || there->lost) return {};
    }
    const Wanted all = wanted(*plan);
    overlaid.insert(overlaid.end(), all.overlaid.begin(), all.overlaid.end());
    for (const auto* list : {&all.states, &all.others}) {
      for (const Reservation& item : *list) {
        for (uint32_t d = item.at.first; d < item.at.first + item.at.count; ++d)
          totals[{item.at.host, d}] += item.bytes;
      }
    }
  }
  std::vector<Reservation> own;
  Room room;
  for (const auto& [at, bytes] : totals) {
    add_reservation(own, at, bytes);
    room.sizes.insert(bytes);
  }
  for (const Reservation& item : overlaid) room.sizes.insert(item.bytes);
  room.fits = !hosts_.lacks(holder_name, own, overlaid);
  return room;
}

void PlanTable::reserve(PlanRecord& record, const std::string& holder_name) {
  Wanted all = wanted(record);
  const std::vector<Reservation> own = all.its_own();
  auto short_of = hosts_.reserve(holder_name, own);
  if (!short_of) {
    short_of = hosts_.reserve_overlaid(holder_name, all.overlaid);
    if (short_of) hosts_.release(holder_name, own);
  }
  if (short_of) {
    if (!short_of->over_quota.empty()) {
      throw Error(ErrorKind::kOverloaded,
                  cat("compile: program \"", record.plan->name, "\": ", short_of->over_quota),
                  {.program = record.plan->name}, kQuotaHint);
    }
    record.short_of = short_of->at.host;
    throw does_not_fit(record, hosts_, *short_of, own_arenas());
  }
  const auto holding = [&](std::vector<Reservation>& held) {
    return std::make_shared<Holding>(hosts_, holder_name, shared_reservations(std::move(held)));
  };
  record.memory = holding(all.others);
  record.states = holding(all.states);
  record.initialisers = holding(all.initialisers);
  if (all.overlaid.empty()) return;
  record.overlaid = std::make_shared<OverlaidHolding>(hosts_, holder_name, std::move(all.overlaid));
}

std::map<DeviceRef, OwnArenas> PlanTable::own_arenas() const {
  std::map<DeviceRef, OwnArenas> arenas;
  for (const auto& [id, plan] : plans_) {
    if (plan.memory == nullptr) continue;
    for (size_t i = 0; i < plan.needs.size(); ++i) {
      for (const DeviceNeed& need : plan.needs[i]) {
        if (need.overlaid > 0) continue;
        OwnArenas& here = arenas[{plan.hosts[i], need.device}];
        here.all += need.arena;
        here.largest = std::max(here.largest, need.arena);
      }
    }
  }
  return arenas;
}

PlanRecord& PlanTable::at(PlanId id, SessionId owner) {
  const auto found = plans_.find(id);
  GW_REQUIRE(found != plans_.end() && found->second.owner == owner && !found->second.released,
             "plan ", id, ": not a plan of this client");
  GW_REQUIRE(found->second.ready || found->second.is_moving, "plan ", id,
             ": is still being compiled: expected to be named once it is");
  return found->second;
}

void PlanTable::give_up(PlanRecord& plan, const Error& why) {
  plan.broken = why;
  plan.comes_with_next_run = false;
  uninstall_if_broken(plan);
}

PlanRecord* PlanTable::find(PlanId id, SessionId owner) {
  const auto found = plans_.find(id);
  return found == plans_.end() || found->second.owner != owner ? nullptr : &found->second;
}

std::optional<SessionId> PlanTable::owner_of(PlanId id) const {
  const auto found = plans_.find(id);
  return found == plans_.end() ? std::nullopt : std::optional(found->second.owner);
}

void PlanTable::release(PlanId id) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return;
  found->second.released = true;
  found->second.unwanted->store(true, std::memory_order_relaxed);
  uninstall_if_unused(id);
}

std::vector<PlanRecord*> PlanTable::all_of(SessionId owner) {
  std::vector<PlanRecord*> all;
  for (auto& [id, plan] : plans_) {
    if (plan.owner == owner) all.push_back(&plan);
  }
  return all;
}

void PlanTable::release_all(SessionId owner) {
  std::vector<PlanId> owned;
  for (const auto& [id, plan] : plans_) {
    if (plan.owner == owner) owned.push_back(id);
  }
  for (PlanId id : owned) release(id);
}

void PlanTable::run_ended(PlanRecord& plan) {
  --plan.runs;
  uninstall_if_broken(plan);
  uninstall_if_unused(plan.id);
}

void PlanTable::uninstall_if_unused(PlanId id) {
  const auto found = plans_.find(id);
  if (!found->second.released || found->second.runs > 0) return;
  uninstall(found->second);
  const std::vector<SliceId> slices = found->second.slices;
  plans_.erase(found);
  for (SliceId slice : slices) slices_.drop(slice);
}

// Uninstalling ends the runs of a plan that lost a host on the hosts that are left. They may wait
// there for the lost host's part for ever, and would delay everything else on those devices, first
// of all the client's next attempt.
void PlanTable::uninstall_if_broken(PlanRecord& plan) {
  if (plan.broken && plan.runs == 0) uninstall(plan);
}

void PlanTable::uninstall(PlanRecord& plan) {
  if (std::exchange(plan.uninstalled, true)) return;
  if (plan.ready && watch_.gone) watch_.gone(plan.id);
  const Frame frame = encode(UninstallFrame{plan.on_hosts, !plan.ready});
  for (HostId host : plan.hosts) hosts_.send(host, frame);
}

void PlanTable::host_lost(HostId host, const Error& why) {
  for (auto& [id, plan] : plans_) {
    const bool uses = std::find(plan.hosts.begin(), plan.hosts.end(), host) != plan.hosts.end();
    if (!uses) continue;
    if (!plan.broken || plan.comes_with_next_run) plan.broken = why;
    plan.comes_with_next_run = false;
    plan.unwanted->store(true, std::memory_order_relaxed);
    uninstall_if_broken(plan);
  }
}

}  // namespace gangway
