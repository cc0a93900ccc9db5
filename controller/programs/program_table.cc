#include "controller/programs/program_table.h"

#include <algorithm>
#include <utility>

#include "controller/programs/run_path.h"
#include "protocol/owner.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/quote.h"
#include "runtime/base/units.h"

namespace gangway {

ProgramTable::ProgramTable(Reactor& reactor, SharedTables& tables, Checkpoints& checkpoints,
                           RunPath& path, Options options)
    : reactor_(reactor),
      tables_(tables),
      checkpoints_(checkpoints),
      path_(path),
      options_(std::move(options)),
      repetition_fibers_(reactor),
      suspensions_(tables) {}

SessionId ProgramTable::add(std::string name, std::string owner, ClientPeer& peer,
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
  const auto count = std::ranges::count_if(
      programs_, [&](const auto& item) { return item.second.owner == owner; });
  if (static_cast<size_t>(count) >= options_.sessions_max) {
    throw Error(ErrorKind::kOverloaded,
                cat("client \"", cut(name, kQuotedBytesMax), "\": ", owner, " has ", count,
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
          .try_emplace(id, std::move(identity), share, peer,
                       LiveProgram::Uses{tables_, checkpoints_, reactor_.clock(),
                                         repetition_fibers_, options_.log, suspensions_},
                       LiveProgram::Callbacks{
                           .release_created =
                               [this, id](const CallTable::Created& created) {
                                 path_.release_created(id, created);
                               },
                           .submit_step =
                               [this, id](RunFrame run) { path_.submit_step(id, std::move(run)); },
                           .record_changed = [this, id] { record_changed(id); }})
          .first->second;
  tables_.runs.set_share(id, share);
  program.log->say("its client has connected");
  return id;
}

std::string ProgramTable::free_name(const std::string& owner, std::string name,
                                    TakenName taken) const {
  const std::optional<SessionId> holder = find(owner, name);
  if (!holder) return name;
  if (taken == TakenName::kRefused) {
    const int64_t for_ns = reactor_.clock().now_ns() - open(*holder).since_ns;
    throw Error(ErrorKind::kInvalid,
                cat("connect: the name \"", name, "\" is taken: a program of ", owner,
                    " has had it for ", format_duration_ns(for_ns)),
                {},
                "choose another name, attach to that program where it is detached, or end it with "
                "\"gangway stop\"");
  }
  for (int number = 2;; ++number) {
    std::string numbered = cat(name, "-", number);
    if (!find(owner, numbered)) return numbered;
  }
}

bool ProgramTable::end(SessionId id, const std::string& why) {
  const auto found = programs_.find(id);
  if (found == programs_.end()) return false;
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
  return true;
}

LiveProgram* ProgramTable::find(SessionId session) {
  const auto found = programs_.find(session);
  return found == programs_.end() ? nullptr : &found->second;
}

const LiveProgram* ProgramTable::find(SessionId session) const {
  const auto found = programs_.find(session);
  return found == programs_.end() ? nullptr : &found->second;
}

LiveProgram& ProgramTable::open(SessionId session) {
  return const_cast<LiveProgram&>(std::as_const(*this).open(session));
}

const LiveProgram& ProgramTable::open(SessionId session) const {
  if (const LiveProgram* const program = find(session)) return *program;
  throw Error(ErrorKind::kUnavailable, cat("client ", session, ": its session is closed"), {},
              "connect again");
}

CallTable::Created ProgramTable::once(SessionId session, const CallTable::Call& call,
                                      const CallTable::Make& make, const StopToken& asker) {
  const std::shared_ptr<CallTable> calls = open(session).calls;
  return calls->once(call, make, asker);
}

void ProgramTable::come_behind(SessionId session, uint64_t releases, const StopToken& asker) {
  const std::shared_ptr<CallTable> calls = open(session).calls;
  calls->come_behind(releases, asker);
}

std::shared_ptr<void> ProgramTable::wait_to_compile(SessionId session) {
  const std::shared_ptr<Suspension> suspension = open(session).suspension;
  return suspension->wait_to_compile();
}

// Steps of a suspended program do not end.
void ProgramTable::end_repetitions(SessionId session, int64_t deadline_ns) {
  LiveProgram* const program = find(session);
  if (program == nullptr) return;
  const bool waits = program->suspension->is_suspended();
  program->repeats.end_all(waits ? reactor_.clock().now_ns() : deadline_ns);
}

void ProgramTable::asks_for_devices(SessionId session) {
  LiveProgram& program = open(session);
  program.log->keep();
  if (!std::exchange(program.has_asked_for_devices, true) && on_program_)
    on_program_({.id = session, .name = program.name, .owner = program.owner});
}

void ProgramTable::warn(SessionId session, const std::string& line) {
  if (LiveProgram* const program = find(session)) return program->warn(line);
  options_.log.warn(line, {{"client", tables_.names.holder(session)}, {"program", ""}});
  say(session, line);
}

void ProgramTable::say(SessionId session, std::string_view line) {
  const LiveProgram* const program = find(session);
  const std::shared_ptr<LogBuffer> log =
      program == nullptr ? ended_logs_.log_of(session) : program->log;
  if (log != nullptr) log->say(line);
}

void ProgramTable::say_host_lost(HostId host, const Error& why) {
  for (const auto& [session, devices] : tables_.slices.devices()) {
    const auto is_there = [&](const DeviceRef& device) { return device.host == host; };
    if (std::ranges::any_of(devices, is_there)) say(session, why.message());
  }
}

void ProgramTable::run_ended(SessionId session, RunDoneFrame&& done) {
  if (LiveProgram* const program = find(session)) program->end_run(std::move(done));
}

bool ProgramTable::is_suspended(SessionId session) const {
  const LiveProgram* const program = find(session);
  return program != nullptr && program->suspension->is_suspended();
}

std::optional<SessionId> ProgramTable::find_log(const std::string& owner, const std::string& name,
                                                uint64_t only) const {
  const std::optional<SessionId> live = find(owner, name);
  if (live && (only == 0 || live->value == only)) return live;
  return ended_logs_.find(owner, name, only);
}

std::shared_ptr<LogBuffer> ProgramTable::log_of(SessionId session) const {
  if (const LiveProgram* const program = find(session)) return program->log;
  if (auto ended = ended_logs_.log_of(session)) return ended;
  throw Error(ErrorKind::kUnavailable,
              cat("logs: those of client ", session, " are kept no longer"));
}

std::optional<ProgramRecord> ProgramTable::record_of(SessionId session) const {
  const LiveProgram* const program = find(session);
  return program == nullptr ? std::nullopt : program->record_keeper.record();
}

}  // namespace gangway
