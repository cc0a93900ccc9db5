#include "controller/controller.h"

#include <algorithm>
#include <utility>

#include "controller/plans/held_bytes.h"
#include "ir/wire/wire.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/quote.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/os/user.h"

namespace gangway {
namespace {

void require_short(const Program& program, const std::string& name) {
  GW_REQUIRE(name.size() <= kTextBytesMax, "compile: program \"",
             cut(program.name, kQuotedBytesMax), "\": a name is too long: expected at most ",
             kTextBytesMax, " bytes, got \"", cut(name, kQuotedBytesMax), "\"");
}

void require_room(size_t held, size_t max, const char* what, const char* of) {
  if (held < max) return;
  throw Error(ErrorKind::kOverloaded,
              cat(what, ": this client has ", held, " ", of, ": expected at most ", max), {},
              cat("release some ", of, " first"));
}

// The hosts that a new one replaces. The connections of a process end with it, but the controller
// may read that later than what the next process sends, and does not learn it while a child of the
// process has them open.
std::vector<HostId> old_selves(const HostTable& hosts, const HostInfo& info,
                               const std::function<HasEnded(const ProcessIdentity&)>& has_ended) {
  std::vector<HostId> ended;
  for (const auto& [id, host] : hosts.all()) {
    const HostInfo& other = host.info;
    const bool is_it =
        info.name_is_chosen && info.process.pid != 0 && other.process == info.process;
    if (!host.lost && other.wanted_name == info.name && other.owner == info.owner &&
        (is_it || has_ended(other.process) == HasEnded::kYes))
      ended.push_back(id);
  }
  return ended;
}

// Two executors with one chosen name are a mistake of their user, reported to the second one.
void require_free_name(const HostTable& hosts, const HostInfo& info) {
  for (const auto& [id, host] : hosts.all()) {
    if (host.lost || host.info.name != info.name) continue;
    const int64_t pid = host.info.process.pid;
    throw Error(pid == 0 ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
                cat("executor \"", info.name, "\": the name is taken by a host that is there",
                    pid == 0 ? std::string() : cat(": process ", pid, " of ", host.info.owner)),
                {.host = info.name}, "choose another --name, or end that executor first");
  }
}

}  // namespace

Controller::Controller(Reactor& reactor, ControllerOptions options)
    : reactor_(reactor),
      options_(std::move(options)),
      tables_(
          reactor,
          {.owner_bounds = options_.owner_bounds,
           .policy = options_.policy,
           .charge_log = options_.charge_log,
           .landings = options_.landings},
          {.run_ended =
               [this](SessionId session, RunDoneFrame&& done, bool is_stopped) {
                 checkpoints_.run_ends(session);
                 path_.run_ended(session, std::move(done), is_stopped);
               },
           .transfer_ended =
               [this](SessionId session, HostTransferKind kind, const HostTransferDoneFrame& done) {
                 path_.transfer_ended(session, kind, done);
               },
           .warn = [this](SessionId session,
                          const std::string& line) { programs_.warn(session, line); },
           .states_placed = [this](SliceId slice) { checkpoints_.states_changed(slice); }}),
      programs_(reactor, tables_, checkpoints_, path_,
                {.sessions_max = options_.sessions_max, .log = options_.log}),
      checkpoints_(reactor, tables_, programs_,
                   {.folder = options_.checkpoint_folder, .log = options_.log}),
      path_(reactor, tables_, programs_, checkpoints_,
            {.runs = options_.run_credits, .transfers = options_.transfer_credits}),
      stuck_(tables_.runs, tables_.metrics, options_.log),
      watch_(tables_.hosts, tables_.plans, tables_.transfers, tables_.runs, stuck_, tables_.metrics,
             {.suspect_after_ms =
                  std::min(HostWatch::Options().suspect_after_ms, options_.host_timeout_ms / 2),
              .lost_after_ms = options_.host_timeout_ms,
              .log = options_.log,
              .on_lost =
                  [this](const HostRecord& host, const Error& why) {
                    programs_.say_host_lost(host.id, why);
                    path_.recovery().host_lost(host.id);
                  }}),
      links_(tables_.hosts, tables_.plans, watch_, tables_.runs, options_.log),
      shown_graphs_(tables_, programs_) {
  tables_.slices.watch_gone([this](SliceId slice) {
    tables_.shared_states.slice_gone(slice);
    checkpoints_.slice_gone(slice);
    path_.recovery().slice_gone(slice);
  });
  checkpoints_.on_written([this](SliceId slice, StateVersion version) {
    path_.recovery().checkpoint_written(slice, version);
  });
  tables_.quotas.set(options_.quotas);
}

// A repetition's fiber may be ready to run and submits steps unless its program has ended.
Controller::~Controller() { programs_.clear(); }

HostId Controller::add_host(HostInfo info, ExecutorPeer& peer) {
  GW_REQUIRE(info.devices >= 1 && info.devices <= 4096 && info.memory_bytes >= 0, "executor \"",
             info.name, "\": expected 1 to 4096 devices, got ", info.devices);
  GW_REQUIRE(!info.name.empty() && internal::is_utf8(info.name), "executor \"",
             cut(info.name, kQuotedBytesMax), "\": expected a name of UTF-8 text");
  info.name = cut(info.name, kQuotedBytesMax);
  info.kind = cut(info.kind, kQuotedBytesMax);
  info.text = cut(info.text, kTextBytesMax * info.devices);
  require_island_name(info.island, cat("executor \"", info.name, "\""));
  const Error ended(ErrorKind::kUnavailable, "its process has ended, and another has come");
  for (const HostId old : old_selves(tables_.hosts, info, options_.has_ended))
    host_lost(old, ended);
  if (info.name_is_chosen) require_free_name(tables_.hosts, info);
  HostRecord& host = tables_.hosts.add(std::move(info), peer, reactor_.clock().now_ns());
  host.runs_done = tables_.metrics.counter("gangway_runs_done_total", "Runs that ended on a host",
                                           {{"host", host.info.name}});
  host.suspect_gauge = tables_.metrics.gauge("gangway_host_suspect", "1: the host says nothing",
                                             {{"host", host.info.name}});
  for (const LinkClass link : kLinkClasses) {
    host.moved_total[static_cast<size_t>(link)] = tables_.metrics.counter(
        "gangway_link_bytes_total", "Bytes that a host's devices moved, by the class of the link",
        {{"host", host.info.name}, {"link", to_string(link)}});
  }
  return host.id;
}

void Controller::host_lost(HostId host, const Error& why, HostEnd end) {
  watch_.lose(host, why, end);
  path_.look_again();
}

void Controller::on_message(HostId id, Message message) {
  HostRecord* host = watch_.heard_of(id, reactor_.clock().now_ns());
  if (host == nullptr) return;
  if (auto* done = std::get_if<RunDoneFrame>(&message)) {
    ++host->runs;
    host->runs_done.add();
    tables_.runs.host_done(id, std::move(*done));
    path_.look_again();
  } else if (auto* copied = std::get_if<HostTransferDoneFrame>(&message)) {
    tables_.transfers.host_done(id, *copied);
    tables_.runs.pump();
    path_.look_again();
  } else if (auto* heartbeat = std::get_if<HeartbeatFrame>(&message)) {
    host->count_moved(heartbeat->moved);
    host->reactor_longest_ms = heartbeat->reactor_longest_ms;
    // Other programs need not wait for stuck work; work that goes on again may get a turn.
    if (stuck_.update(*host, std::move(heartbeat->stuck))) tables_.runs.pump();
  } else if (const auto* progress = std::get_if<ProgressFrame>(&message)) {
    tables_.runs.progress(id, *progress);
  } else if (const auto* broken = std::get_if<LinkBrokenFrame>(&message)) {
    if (links_.report(id, *broken, reactor_.clock().now_ns())) path_.deadline_moved().wake_all();
  } else {
    throw Error(ErrorKind::kInvalid,
                "frame: an executor sent a kind of frame that is not its to send");
  }
}

void Controller::session_closed(SessionId id, const std::string& why) {
  if (!programs_.end(id, why)) return;
  path_.runs_again().session_closed(id);
  tables_.runs.session_closed(id);
  tables_.transfers.session_closed(id);
  tables_.shared_states.session_closed(id);
  path_.recovery().session_closed(id);
  tables_.objects.client_drops_all(id);
  tables_.plans.release_all(id);
  tables_.slice_queue.session_closed(id);
  tables_.slices.release_all(id);
  tables_.runs.pump();
}

void Controller::detach(SessionId id) {
  LiveProgram* const program = programs_.find(id);
  if (program == nullptr) return;
  program->detach();
  const std::set<ArrayId> taken = path_.recovery().detached(id);
  path_.runs_again().detached(id, taken);
  tables_.objects.client_drops_all(id, taken);
  tables_.runs.pump();
  programs_.record_changed(id);
}

void Controller::on_message(SessionId id, Message message) {
  path_.on_message(id, std::move(message));
}

const SliceRecord& Controller::allocate(SessionId session, const SliceShape& shape,
                                        const StopToken& stop) {
  static_cast<void>(programs_.open(session));
  require_room(tables_.slices.all_of(session).size(), options_.slices_max, "allocate", "slices");
  programs_.asks_for_devices(session);
  return tables_.slice_queue.allocate(session, shape, stop);
}

ReadProgram Controller::read_program(SessionId session, std::vector<std::byte> bytes) {
  OwnerUse::Hold held = programs_.open(session).take_memory(bytes.size(), "compile");
  struct Read {
    Program program;
    size_t bytes = 0;
  };
  const std::shared_ptr<Read> read =
      tables_.background.run(tables_.names.owner(session), [bytes = std::move(bytes)] {
        auto created = std::make_shared<Read>();
        created->program = program_from_wire(bytes);
        created->bytes = held_bytes(created->program);
        return created;
      });
  held = programs_.open(session).take_memory(read->bytes, "compile");
  return {std::move(read->program), std::move(held)};
}

const PlanRecord& Controller::compile(SessionId session, Program program,
                                      const std::vector<SliceId>& slices, CompileRequest request) {
  static_cast<void>(programs_.open(session));
  path_.recovery().wait_until_back(session);
  const std::shared_ptr<void> may_compile = programs_.wait_to_compile(session);
  static_cast<void>(programs_.open(session));
  require_room(tables_.plans.all_of(session).size(), options_.plans_max, "compile", "executables");
  require_short(program, program.name);
  for (const ProgramNode& node : program.nodes) require_short(program, node.name);
  request.overlaid = options_.overlay_memory;
  request.owner.name = tables_.names.owner(session);
  request.owner.is_operator = request.owner.name == own_user_name();
  const PlanRecord& plan = tables_.plans.compile(
      session, tables_.names.holder(session), std::make_shared<const Program>(std::move(program)),
      slices, std::move(request));
  if (plan.may_overflow) path_.runs_again().begin(session);
  return plan;
}

void Controller::repeat(SessionId session, RepeatRequest request, const StopToken& asker) {
  path_.recovery().wait_until_back(session, asker);
  LiveProgram& program = programs_.open(session);
  const PlanRecord& plan = tables_.plans.at(request.plan, session);
  program.repeat(plan, std::move(request));
}

int64_t Controller::suspend_program(SessionId id, const std::string& by, const StopToken& asker) {
  // A suspended program that lost a host is brought back only once it is resumed.
  if (!programs_.is_suspended(id)) path_.recovery().wait_until_back(id, asker);
  // Shared, since the program may end meanwhile.
  const std::shared_ptr<Suspension> suspension = programs_.open(id).suspension;
  const bool is_new = !suspension->is_suspended();
  const Result<int64_t> bytes = result_of([&] { return suspension->suspend(asker); });
  if (is_new && suspension->is_suspended())
    programs_.warn(id, cat("the program is suspended by ", by,
                           ": what it enqueues waits until it is resumed"));
  return bytes.value();
}

void Controller::resume_program(SessionId id, const std::string& by, const StopToken& asker) {
  const std::shared_ptr<Suspension> suspension = programs_.open(id).suspension;
  if (!suspension->is_suspended()) return;
  suspension->resume(asker);
  path_.look_again();
  programs_.warn(id, cat("the program is resumed by ", by));
}

void Controller::keep_checkpoints(SessionId session, SliceId slice, RecoveryOptions options,
                                  const StopToken& asker) {
  path_.recovery().wait_until_back(session, asker);
  static_cast<void>(programs_.open(session));
  checkpoints_.require_room_for_folder(session);
  checkpoints_.try_memory(session, slice);
  static_cast<void>(programs_.open(session));
  checkpoints_.keep(session, slice, std::move(options));
  if (programs_.find(session) != nullptr) path_.recovery().keep(session, slice);
}

int64_t Controller::tick(int64_t now_ns) {
  const int64_t late_ns = watch_.late_ns(now_ns);
  const int64_t hosts_ns = watch_.tick(now_ns);
  const int64_t next_ns = std::min(hosts_ns, links_.tick(now_ns).value_or(hosts_ns));
  path_.expire(now_ns, late_ns);
  path_.look_again();
  return std::min(next_ns, path_.next_deadline_ns().value_or(next_ns));
}

ControllerCounts Controller::counts() const {
  ControllerCounts counts;
  for (const auto& [id, host] : tables_.hosts.all()) counts.hosts += host.lost ? 0 : 1;
  counts.clients = programs_.all().size();
  counts.slices = tables_.slices.size();
  counts.plans = tables_.plans.size();
  counts.arrays = tables_.objects.size();
  counts.runs = tables_.runs.size() + path_.runs_again().held();
  counts.transfers =
      tables_.transfers.under_way() + tables_.shared_states.under_way() + checkpoints_.under_way();
  return counts;
}

std::map<std::string, size_t> Controller::census() const {
  size_t calls = 0, repetitions = 0;
  for (const auto& [id, program] : programs_.all()) {
    calls += program.calls->size();
    repetitions += program.repeats.size();
  }
  return {{"sessions", programs_.all().size()},
          {"slices", tables_.slices.size()},
          {"plans", tables_.plans.size()},
          {"arrays", tables_.objects.size()},
          {"runs", tables_.runs.size()},
          {"runs that are held", path_.runs_again().held()},
          {"copies", tables_.transfers.under_way()},
          {"reads of states", tables_.shared_states.under_way()},
          {"checkpoints", checkpoints_.under_way()},
          {"slices with checkpoints", checkpoints_.size()},
          {"programs that would be brought back", path_.recovery().size()},
          {"repetitions", repetitions},
          {"calls of clients", calls},
          {"logs of programs", programs_.logs()},
          {"compiled functions", tables_.plans.cache().counts().entries},
          {"records of compilations", shown_graphs_.records().size()},
          {"hosts", tables_.hosts.all().size()},
          {"names of hosts", tables_.hosts.names().all().size()},
          {"holders of memory", tables_.hosts.held_in_all().size()},
          {"owners that hold something", tables_.owner_use.owners()},
          {"series of metrics", tables_.metrics.series()}};
}

std::vector<ProgramCounts> Controller::program_counts() const {
  const auto waits_for = [this](SessionId id) {
    const std::string slices = tables_.slice_queue.waits_for(id),
                      lost = path_.recovery().waits_for(id);
    return cat(slices, slices.empty() || lost.empty() ? "" : "; ", lost);
  };
  std::vector<ProgramCounts> programs;
  programs.reserve(programs_.all().size());
  std::map<SessionId, RunTable::Counts> counts = tables_.runs.counts();
  std::map<SessionId, double> used = tables_.runs.used();
  const std::map<std::string, int64_t> held = tables_.hosts.held_in_all();
  const std::map<SessionId, std::set<DeviceRef>> devices = tables_.slices.devices();
  for (const auto& [id, session] : programs_.all()) {
    const RunTable::Counts& runs = counts[id];
    programs.push_back({.id = id,
                        .name = session.name,
                        .owner = session.owner,
                        .share = session.share,
                        .used = used[id],
                        .runs_waiting = runs.waiting + path_.runs_again().held(id),
                        .runs_in_flight = runs.in_flight,
                        .runs_done = session.runs_done,
                        .waits_for = waits_for(id),
                        .credits_used = session.client.runs(),
                        .reported = session.reported,
                        .detached = session.is_detached(),
                        .suspended = session.suspension->is_suspended(),
                        .host_bytes = session.suspension->host_bytes(),
                        .checkpoint = checkpoints_.newest_number_of(id)});
    ProgramCounts& program = programs.back();
    if (Reported repeated = session.repeats.reported(); !repeated.empty())
      program.reported = std::move(repeated);
    if (const auto at = held.find(session.holder); at != held.end())
      program.memory_bytes = at->second;
    const auto at = devices.find(id);
    if (at == devices.end()) continue;
    program.devices = static_cast<uint32_t>(at->second.size());
    std::set<std::string> on;
    for (const DeviceRef& device : at->second)
      on.insert(tables_.hosts.all().at(device.host).info.name);
    program.hosts.assign(on.begin(), on.end());
  }
  return programs;
}

}  // namespace gangway
