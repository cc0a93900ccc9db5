#include "controller/controller.h"

#include <algorithm>
#include <utility>

#include "controller/plans/held_bytes.h"
#include "ir/wire/wire.h"
#include "protocol/owner.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/quote.h"
#include "runtime/os/user.h"

namespace gangway {
namespace {

// A large compilation does not keep a small one waiting, nor do two of one owner another owner's.
constexpr BackgroundBounds kCompilesAtOnce{.threads_max = 3, .of_one_owner_max = 2};

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

}  // namespace

Controller::Controller(Reactor& reactor, ControllerOptions options)
    : reactor_(reactor),
      options_(std::move(options)),
      owner_use_(options_.owner_bounds),
      slices_(hosts_, &names_),
      quotas_(hosts_, slices_, owner_use_, names_),
      slice_queue_(reactor_.clock(), hosts_, slices_, &quotas_),
      objects_(hosts_),
      background_(reactor, "compiler", kCompilesAtOnce),
      plans_(reactor, background_, hosts_, slices_,
             {[this](const PlanRecord& plan) { runs_.plan_ready(plan); },
              [this](PlanId plan) { runs_.plan_gone(plan); },
              [this](SliceId slice) { checkpoints_.states_changed(slice); }}),
      runs_(reactor_.clock(), hosts_, plans_, objects_, names_,
            {[this](SessionId session, RunDoneFrame&& done, bool is_stopped) {
               run_ended(session, std::move(done), is_stopped);
             },
             [this](SessionId session, const std::string& line) { warn(session, line); },
             [this](const OrderPlace& place) { shared_states_.at_place(place); },
             [this](const RunRecord& run, bool committed) {
               shared_states_.run_ended(run, committed);
             }},
            make_policy(options_.policy), options_.charge_log),
      repetition_fibers_(reactor),
      copies_(
          hosts_, plans_, slices_, objects_, names_,
          [this](SessionId session, CopyKind kind, const CopyDoneFrame& done) {
            copy_ended(session, kind, done);
          },
          options_.landings),
      shared_states_(slices_, runs_, copies_, names_),
      suspensions_({hosts_, slices_, objects_, plans_, runs_, copies_, metrics_}),
      runs_again_({reactor, background_, slices_, objects_, plans_, names_},
                  runs_again_callbacks()),
      checkpoints_(
          reactor, hosts_, slices_, runs_, copies_, names_,
          {[this](SessionId session, const Checkpoints::Read& read, const StopToken& stop) {
             return read_for_checkpoint(session, read, stop);
           },
           [this](SliceId slice) { shared_states_.withdraw(slice); },
           [this](SessionId session) {
             const auto& most = quotas_.of(names_.owner(session)).checkpoint_bytes;
             return most ? static_cast<uint64_t>(*most) : UINT64_MAX;
           },
           [this](SessionId session, const std::string& line) { warn(session, line); },
           [this](SessionId session, StateVersion version) {
             say(session, cat("a checkpoint of version ", version, " is written"));
           }},
          {.folder = options_.checkpoint_folder, .log = options_.log}),
      recovery_({reactor, hosts_, slices_, objects_, plans_, runs_, copies_, checkpoints_, names_,
                 owner_use_},
                recovery_callbacks()),
      stuck_(runs_, metrics_, options_.log),
      watch_(hosts_, plans_, copies_, runs_, stuck_, metrics_,
             {.suspect_after_ms =
                  std::min(HostWatch::Options().suspect_after_ms, options_.host_timeout_ms / 2),
              .lost_after_ms = options_.host_timeout_ms,
              .log = options_.log,
              .on_lost = [this](const HostRecord& host, const Error& why) {
                log_host_lost(host, why);
                recovery_.host_lost(host.id);
              }}) {
  slices_.watch_gone([this](SliceId slice) {
    shared_states_.slice_gone(slice);
    checkpoints_.slice_gone(slice);
    recovery_.slice_gone(slice);
  });
  hosts_.names().on_forget([this](const std::string& name) { metrics_.forget("host", name); });
  checkpoints_.on_written([this](SliceId slice, StateVersion version) {
    recovery_.checkpoint_written(slice, version);
    const SliceRecord* const record = slices_.find(slice);
    LiveProgram* const program = record == nullptr ? nullptr : live(record->owner);
    if (program != nullptr) program->record_keeper.checkpoint_written();
  });
  quotas_.set(options_.quotas);
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
  lose_old_selves(info);
  if (info.name_is_chosen) require_free_name(info);
  HostRecord& host = hosts_.add(std::move(info), peer, reactor_.clock().now_ns());
  host.runs_done = metrics_.counter("gangway_runs_done_total", "Runs that ended on a host",
                                    {{"host", host.info.name}});
  host.suspect_gauge = metrics_.gauge("gangway_host_suspect", "1: the host says nothing",
                                      {{"host", host.info.name}});
  for (const LinkClass link : kLinkClasses) {
    host.moved_total[static_cast<size_t>(link)] = metrics_.counter(
        "gangway_link_bytes_total", "Bytes that a host's devices moved, by the class of the link",
        {{"host", host.info.name}, {"link", to_string(link)}});
  }
  return host.id;
}

// The connections of a process end with it, but the controller may read that later than what the
// next process sends, and does not learn it while a child of the process has them open.
void Controller::lose_old_selves(const HostInfo& info) {
  std::vector<HostId> ended;
  for (const auto& [id, host] : hosts_.all()) {
    const HostInfo& other = host.info;
    const bool is_it =
        info.name_is_chosen && info.process.pid != 0 && other.process == info.process;
    if (!host.lost && other.wanted_name == info.name && other.owner == info.owner &&
        (is_it || options_.has_ended(other.process)))
      ended.push_back(id);
  }
  for (const HostId id : ended)
    host_lost(id, Error(ErrorKind::kUnavailable, "its process has ended, and another has come"));
}

// Two executors with one chosen name are a mistake of their user, reported to the second one.
void Controller::require_free_name(const HostInfo& info) const {
  for (const auto& [id, host] : hosts_.all()) {
    if (host.lost || host.info.name != info.name) continue;
    const int64_t pid = host.info.process.pid;
    throw Error(pid == 0 ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
                cat("executor \"", info.name, "\": the name is taken by a host that is there",
                    pid == 0 ? std::string() : cat(": process ", pid, " of ", host.info.owner)),
                {.host = info.name}, "choose another --name, or end that executor first");
  }
}

void Controller::host_lost(HostId host, const Error& why, HostEnd end) {
  watch_.lose(host, why, end);
  look_again();
}

// Something has ended that suspensions, recovery or runs that are to run again may wait for.
void Controller::look_again() {
  suspensions_.look_again();
  recovery_.look_again();
  runs_again_.look_again();
}

void Controller::set_draining(const std::string& host, bool is_draining) {
  hosts_.set_draining(host, is_draining);
  options_.log.info(is_draining ? "host is drained of slices" : "host takes slices again",
                    {{"host", host}});
}

void Controller::forget_host(const std::string& host) {
  hosts_.names().forget(host);
  options_.log.info("host is forgotten", {{"host", host}});
}

void Controller::on_message(HostId id, Message message) {
  HostRecord* host = watch_.heard_of(id, reactor_.clock().now_ns());
  if (host == nullptr) return;
  if (auto* done = std::get_if<RunDoneFrame>(&message)) {
    ++host->runs;
    host->runs_done.add();
    runs_.host_done(id, std::move(*done));
    look_again();
  } else if (auto* copied = std::get_if<CopyDoneFrame>(&message)) {
    copies_.host_done(id, *copied);
    runs_.pump();
    look_again();
  } else if (auto* heartbeat = std::get_if<HeartbeatFrame>(&message)) {
    host->count_moved(heartbeat->moved);
    host->reactor_longest_ms = heartbeat->reactor_longest_ms;
    // Other programs need not wait for stuck work; work that goes on again may get a turn.
    if (stuck_.update(*host, std::move(heartbeat->stuck))) runs_.pump();
  } else if (const auto* progress = std::get_if<ProgressFrame>(&message)) {
    runs_.progress(id, *progress);
  } else {
    throw Error(ErrorKind::kInvalid,
                "frame: an executor sent a kind of frame that is not its to send");
  }
}

SessionId Controller::add_session(std::string name, std::string owner, ClientPeer& peer,
                                  const Share& share, TakenName taken) {
  GW_ASSERT(is_owner_name(owner), "the owner of client \"", cut(name, kQuotedBytesMax), "\"");
  if (taken == TakenName::kRefused) {
    GW_REQUIRE(!name.empty() && name.size() <= kProgramNameBytesMax && internal::is_utf8(name),
               "connect: the program's name \"", cut(name, kQuotedBytesMax), "\": expected 1 to ",
               kProgramNameBytesMax, " bytes of UTF-8 text, got ", name.size(), " bytes");
  } else {
    name = cut(name, kQuotedBytesMax);
  }
  require_share(cat("client \"", cut(name, kQuotedBytesMax), "\""), share);
  const auto open = std::ranges::count_if(
      programs_, [&](const auto& item) { return item.second.owner == owner; });
  if (static_cast<size_t>(open) >= options_.sessions_max) {
    throw Error(ErrorKind::kOverloaded,
                cat("client \"", cut(name, kQuotedBytesMax), "\": ", owner, " has ", open,
                    " clients and programs: ", "expected at most ", options_.sessions_max),
                {}, "close some first; those whose connection is lost go with their lease");
  }
  name = free_name(owner, std::move(name), taken);
  const SessionId id(++last_session_);
  LiveProgram::Identity identity{.id = id,
                                 .name = std::move(name),
                                 .owner = std::move(owner),
                                 .has_chosen_name = taken == TakenName::kRefused,
                                 .since_ns = reactor_.clock().now_ns()};
  const LiveProgram& program =
      programs_
          .try_emplace(
              id, std::move(identity), share, peer,
              LiveProgram::Uses{names_,
                                reactor_.clock(),
                                owner_use_,
                                repetition_fibers_,
                                options_.log,
                                {slices_, plans_, runs_, checkpoints_},
                                suspensions_},
              LiveProgram::Callbacks{
                  .let_go = [this, id](const CallTable::Made& made) { let_go(id, made); },
                  .submit_step = [this, id](RunFrame run) { submit_step(id, std::move(run)); },
                  .record_changed = [this, id] { record_changed(id); }})
          .first->second;
  runs_.set_share(id, share);
  program.log->say("its client has connected");
  return id;
}

void Controller::set_share(SessionId session, const Share& share) {
  LiveProgram& program = open_program(session);
  require_share(names_.holder(session), share);
  program.share = share;
  runs_.set_share(session, share);
  record_changed(session);
}

void Controller::report(SessionId session, Reported numbers) {
  LiveProgram& program = open_program(session);
  require_reported(names_.holder(session), numbers);
  program.reported = std::move(numbers);
}

void Controller::session_closed(SessionId id, const std::string& why) {
  const auto found = programs_.find(id);
  if (found == programs_.end()) return;
  const LiveProgram& program = found->second;
  if (on_program_ && program.has_asked_for_devices) {
    on_program_({.id = id,
                 .name = program.name,
                 .owner = program.owner,
                 .has_ended = true,
                 .why = why,
                 .runs_done = program.runs_done});
  }
  if (program.client.runs() > 0)
    options_.log.warn("client ended with runs under way",
                      {{"client", program.name}, {"runs", program.client.runs()}});
  program.calls->close();
  program.log->end(cat(why, "; ", program.runs_done, " runs were done"));
  if (program.log->is_kept()) ended_logs_.add(id, {program.owner, program.name, program.log});
  programs_.erase(found);
  record_changed(id);
  runs_again_.session_closed(id);
  runs_.session_closed(id);
  copies_.session_closed(id);
  shared_states_.session_closed(id);
  recovery_.session_closed(id);
  objects_.client_drops_all(id);
  plans_.release_all(id);
  slice_queue_.session_closed(id);
  slices_.release_all(id);
  runs_.pump();
}

void Controller::on_message(SessionId id, Message message) {
  LiveProgram* const found = live(id);
  if (found == nullptr) return;
  LiveProgram& program = *found;
  if (auto* run = std::get_if<RunFrame>(&message)) {
    GW_REQUIRE(program.client.runs() < options_.run_credits, names_.holder(id),
               ": sent more runs than its ", options_.run_credits, " credits");
    // Before it is counted: its end would be taken for the end of the run that has the name.
    if (is_known_run(id, run->run)) {
      return tell(id, RunDoneFrame{.run = run->run,
                                   .error = Error(ErrorKind::kInvalid,
                                                  cat("run ", run->run, ": the name is taken"))});
    }
    program.take_run(*run);
  } else if (const auto* copy = std::get_if<CopyFrame>(&message)) {
    GW_REQUIRE(program.client.copies() < options_.copy_credits, names_.holder(id),
               ": sent more puts and gets than its ", options_.copy_credits, " credits");
    program.client.begin_copy(*copy);
  } else if (auto* cancel = std::get_if<CancelFrame>(&message)) {
    // A client may only cancel: to the hosts, errors of other kinds say more than that.
    const Error why(ErrorKind::kCancelled, cancel->error.message(), cancel->error.where());
    if (!recovery_.cancel(id, cancel->run, why) && !runs_again_.cancel(id, cancel->run, why))
      runs_.cancel(id, cancel->run, why);
    return;
  } else if (!std::holds_alternative<FreeFrame>(message) &&
             !std::holds_alternative<ReleaseFrame>(message)) {
    throw Error(ErrorKind::kInvalid,
                "frame: a client sent a kind of frame that is not its to send");
  }
  if (recovery_.is_moving(id)) {
    if (std::holds_alternative<ReleaseFrame>(message)) program.calls->release_has_come();
    return recovery_.defer(id, std::move(message));
  }
  act(program, std::move(message));
}

bool Controller::is_known_run(SessionId id, RunId run) const {
  return runs_.knows(id, run) || runs_again_.knows(id, run) || recovery_.knows(id, run);
}

void Controller::act(LiveProgram& program, Message&& message) {
  const SessionId id = program.id;
  if (auto* run = std::get_if<RunFrame>(&message)) {
    // A step that waited while its program was brought back.
    if (program.repeats.is_step(run->run)) return recovery_.submit(id, std::move(*run));
    const std::optional<Error> refused = program.begin_run(*run);
    recovery_.submit(id, std::move(*run), refused);
  } else if (auto* copy = std::get_if<CopyFrame>(&message)) {
    if (!runs_again_.waits(id, *copy)) start_copy(id, std::move(*copy));
  } else if (const auto* freed = std::get_if<FreeFrame>(&message)) {
    runs_again_.free(id, freed->arrays);
    runs_.pump();
  } else if (const auto* released = std::get_if<ReleaseFrame>(&message)) {
    program.calls->release(released->calls);
  }
}

// Reads and writes of states take their turn among the runs; puts and gets of arrays do not.
void Controller::start_copy(SessionId id, CopyFrame frame) {
  recovery_.copy_begins(id, frame);
  if (frame.kind == CopyKind::kGet || frame.kind == CopyKind::kPut)
    return copies_.start(id, std::move(frame));
  const StateScope scope = frame.scope;
  if (frame.kind == CopyKind::kPutState) open_program(id).record_keeper.writes_states(scope.id);
  runs_.in_order(id, scope, [this, id, state = std::move(frame)](Ticket ticket) mutable {
    state.ticket = ticket;
    copies_.start(id, std::move(state));
  });
}

CallTable::Made Controller::once(SessionId session, const CallTable::Call& call,
                                 const CallTable::Make& make, const StopToken& asker) {
  const std::shared_ptr<CallTable> calls = open_program(session).calls;
  return calls->once(call, make, asker);
}

void Controller::let_go(SessionId session, const CallTable::Made& made) {
  if (const auto* slice = std::get_if<SliceId>(&made)) return release_slice(*slice);
  if (std::holds_alternative<StatesRead>(made)) return;  // The client has it.
  const PlanId plan = std::get<PlanId>(made);
  if (LiveProgram* const program = live(session)) {
    program->repeats.plan_gone(plan);
    program->executables.drop(plan);
  }
  release_plan(plan);
  record_changed(session);
}

const SliceRecord& Controller::allocate(SessionId session, const SliceShape& shape,
                                        const StopToken& stop) {
  LiveProgram& asking = open_program(session);
  require_room(slices_.all_of(session).size(), options_.slices_max, "allocate", "slices");
  asking.log->keep();
  if (!std::exchange(asking.has_asked_for_devices, true) && on_program_)
    on_program_({.id = session, .name = asking.name, .owner = asking.owner});
  return slice_queue_.allocate(session, shape, stop);
}

void Controller::release_slice(SliceId slice) { slices_.release(slice); }

ReadProgram Controller::read_program(SessionId session, std::vector<std::byte> bytes) {
  OwnerUse::Hold held = take_memory(session, bytes.size(), "compile");
  struct Read {
    Program program;
    size_t bytes = 0;
  };
  const std::shared_ptr<Read> read =
      background_.run(names_.owner(session), [bytes = std::move(bytes)] {
        auto made = std::make_shared<Read>();
        made->program = program_from_wire(bytes);
        made->bytes = held_bytes(made->program);
        return made;
      });
  held = take_memory(session, read->bytes, "compile");
  return {std::move(read->program), std::move(held)};
}

OwnerUse::Hold Controller::take_memory(SessionId session, size_t bytes, const char* what) {
  return open_program(session).take_memory(bytes, what);
}

const PlanRecord& Controller::compile(SessionId session, Program program,
                                      const std::vector<SliceId>& slices, CompileRequest request) {
  static_cast<void>(open_program(session));
  recovery_.wait_until_back(session);
  // Shared, since the program may end meanwhile.
  const std::shared_ptr<Suspension> suspension = open_program(session).suspension;
  const std::shared_ptr<void> may_compile = suspension->wait_to_compile();
  static_cast<void>(open_program(session));
  require_room(plans_.all_of(session).size(), options_.plans_max, "compile", "executables");
  require_short(program, program.name);
  for (const ProgramNode& node : program.nodes) require_short(program, node.name);
  request.overlaid = options_.overlay_memory;
  request.owner.name = names_.owner(session);
  request.owner.is_operator = request.owner.name == own_user_name();
  const PlanRecord& plan = plans_.compile(session, names_.holder(session),
                                          std::make_shared<const Program>(std::move(program)),
                                          slices, std::move(request));
  if (plan.may_overflow) runs_again_.begin(session);
  return plan;
}

void Controller::release_plan(PlanId plan) {
  const std::optional<SessionId> owner = plans_.owner_of(plan);
  if (owner && !runs_again_.releases_later(*owner, plan)) plans_.release(plan);
}

int64_t Controller::tick(int64_t now_ns) {
  const int64_t late_ns = watch_.late_ns(now_ns);
  const int64_t next_ns = watch_.tick(now_ns);
  runs_.expire(now_ns, late_ns);
  runs_again_.expire(now_ns);
  look_again();
  return std::min({next_ns, runs_.next_deadline_ns().value_or(next_ns),
                   runs_again_.next_deadline_ns().value_or(next_ns)});
}

ControllerCounts Controller::counts() const {
  ControllerCounts counts;
  for (const auto& [id, host] : hosts_.all()) counts.hosts += host.lost ? 0 : 1;
  counts.clients = programs_.size();
  counts.slices = slices_.size();
  counts.plans = plans_.size();
  counts.arrays = objects_.size();
  counts.runs = runs_.size() + runs_again_.held();
  counts.copies = copies_.under_way() + shared_states_.under_way() + checkpoints_.under_way();
  return counts;
}

std::map<std::string, size_t> Controller::census() const {
  size_t calls = 0, repetitions = 0;
  for (const auto& [id, program] : programs_) {
    calls += program.calls->size();
    repetitions += program.repeats.size();
  }
  return {{"sessions", programs_.size()},
          {"slices", slices_.size()},
          {"plans", plans_.size()},
          {"arrays", objects_.size()},
          {"runs", runs_.size()},
          {"runs that are held", runs_again_.held()},
          {"copies", copies_.under_way()},
          {"reads of states", shared_states_.under_way()},
          {"checkpoints", checkpoints_.under_way()},
          {"slices with checkpoints", checkpoints_.size()},
          {"programs that would be brought back", recovery_.size()},
          {"repetitions", repetitions},
          {"calls of clients", calls},
          {"logs of programs", programs_.size() + ended_logs_.size()},
          {"compiled functions", plans_.cache().counts().entries},
          {"records of compilations", records_.size()},
          {"hosts", hosts_.all().size()},
          {"names of hosts", hosts_.names().all().size()},
          {"holders of memory", hosts_.held_in_all().size()},
          {"owners that hold something", owner_use_.owners()},
          {"series of metrics", metrics_.series()}};
}

std::string Controller::waits_for(SessionId id) const {
  const std::string slices = slice_queue_.waits_for(id), lost = recovery_.waits_for(id);
  return cat(slices, slices.empty() || lost.empty() ? "" : "; ", lost);
}

std::vector<ProgramCounts> Controller::programs() const {
  std::vector<ProgramCounts> programs;
  programs.reserve(programs_.size());
  std::map<SessionId, RunTable::Counts> counts = runs_.counts();
  std::map<SessionId, double> used = runs_.used();
  const std::map<std::string, int64_t> held = hosts_.held_in_all();
  const std::map<SessionId, std::set<DeviceRef>> devices = slices_.devices();
  for (const auto& [id, session] : programs_) {
    const RunTable::Counts& runs = counts[id];
    programs.push_back({.id = id,
                        .name = session.name,
                        .owner = session.owner,
                        .share = session.share,
                        .used = used[id],
                        .runs_waiting = runs.waiting + runs_again_.held(id),
                        .runs_in_flight = runs.in_flight,
                        .runs_done = session.runs_done,
                        .waits_for = waits_for(id),
                        .credits_used = session.client.runs(),
                        .reported = session.reported,
                        .detached = !session.client.is_there(),
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
    for (const DeviceRef& device : at->second) on.insert(hosts_.all().at(device.host).info.name);
    program.hosts.assign(on.begin(), on.end());
  }
  return programs;
}

LiveProgram* Controller::live(SessionId session) {
  const auto found = programs_.find(session);
  return found == programs_.end() ? nullptr : &found->second;
}

const LiveProgram* Controller::live(SessionId session) const {
  const auto found = programs_.find(session);
  return found == programs_.end() ? nullptr : &found->second;
}

LiveProgram& Controller::open_program(SessionId session) {
  return const_cast<LiveProgram&>(std::as_const(*this).open_program(session));
}

const LiveProgram& Controller::open_program(SessionId session) const {
  if (const LiveProgram* const program = live(session)) return *program;
  throw Error(ErrorKind::kUnavailable, cat("client ", session, ": its session is closed"), {},
              "connect again");
}

void Controller::run_ended(SessionId id, RunDoneFrame&& done, bool is_stopped) {
  checkpoints_.run_ends(id);
  if (!runs_again_.run_ended(id, done, is_stopped)) run_ended_for_good(id, std::move(done));
}

void Controller::run_ended_for_good(SessionId id, RunDoneFrame&& done) {
  if (recovery_.run_ended(id, done)) tell_run_ended(id, std::move(done));
}

void Controller::tell_run_ended(SessionId id, RunDoneFrame&& done) {
  if (LiveProgram* const program = live(id)) program->end_run(std::move(done));
}

void Controller::copy_ended(SessionId id, CopyKind kind, CopyDoneFrame done) {
  LiveProgram* const program = live(id);
  if (program == nullptr) return;
  // It can't keep its place among the runs: a host that was lost may still write to the memory that
  // it names. The client asks again; since it waits for the get, that may come after later runs.
  done.comes_again = (kind == CopyKind::kGet || kind == CopyKind::kGetState) && done.error &&
                     done.error->kind() == ErrorKind::kUnavailable && recovery_.is_moving(id);
  if (!program->client.end_copy(done.request)) return;
  tell(id, done);
}

void Controller::tell(SessionId id, const Message& message) {
  if (LiveProgram* const program = live(id)) program->client.send(message);
}

void Controller::warn(SessionId id, const std::string& line) {
  if (LiveProgram* const program = live(id)) return program->warn(line);
  options_.log.warn(line, {{"client", names_.holder(id)}, {"program", ""}});
  say(id, line);
}

void Controller::say(SessionId id, std::string_view text) {
  const LiveProgram* const program = live(id);
  const std::shared_ptr<LogBuffer> log = program == nullptr ? ended_logs_.log_of(id) : program->log;
  if (log != nullptr) log->say(text);
}

std::optional<SessionId> Controller::find_log(const std::string& owner, const std::string& name,
                                              uint64_t only) const {
  const std::optional<SessionId> live = names_.find(owner, name);
  if (live && (only == 0 || live->value == only)) return live;
  return ended_logs_.find(owner, name, only);
}

std::shared_ptr<LogBuffer> Controller::log_of(SessionId id) const {
  if (const LiveProgram* const program = live(id)) return program->log;
  if (auto ended = ended_logs_.log_of(id)) return ended;
  throw Error(ErrorKind::kUnavailable, cat("logs: those of client ", id, " are kept no longer"));
}

void Controller::log_host_lost(const HostRecord& host, const Error& why) {
  for (const auto& [session, devices] : slices_.devices()) {
    const auto is_there = [&](const DeviceRef& device) { return device.host == host.id; };
    if (std::ranges::any_of(devices, is_there)) say(session, why.message());
  }
}

}  // namespace gangway
