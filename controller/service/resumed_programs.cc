#include "controller/service/resumed_programs.h"

#include <algorithm>
#include <utility>

#include "controller/programs/elastic.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/fibers/kj_error.h"

namespace gangway {
namespace {

constexpr int64_t kBeginAgainFirstNs = 1'000'000'000, kBeginAgainMaxNs = 60'000'000'000;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr int kNamesOfSession = 40;  // Low bits of a client's names; its session's number is above.

// The peer of a program that has no client yet.
class NoClient final : public ClientPeer {
 public:
  void send(const Frame&) override {}
};

// Whether the controller refused a slice, as it also does where the quota of the owner is used up:
// then a smaller slice may do.
bool is_refusal(const Error& why) {
  return why.kind() == ErrorKind::kOverloaded || why.kind() == ErrorKind::kInvalid;
}

// Turns kOverloaded into kUnavailable: others may release what the program needs, so it begins
// again.
template <class Body>
auto or_begin_again(const Body& body) {
  auto created = result_of(body);
  if (!created.ok() && created.error().kind() == ErrorKind::kOverloaded) {
    const Error& why = created.error();
    throw Error(ErrorKind::kUnavailable, why.message(), why.where(), why.hint());
  }
  return created.take();
}

// Versions on disk from which the program can go on, the best first: the newest, but the version
// after the last step comes last, since nobody would then know the outputs of that step.
std::vector<StateVersion> candidates(const std::vector<StateVersion>& on_disk,
                                     const ProgramRecord::Repetition& repetition) {
  const uint64_t last = repetition.first_version + static_cast<uint64_t>(repetition.steps);
  std::vector<StateVersion> versions;
  for (const StateVersion version : on_disk) {
    if (version.value >= repetition.restorable_from && version.value < last)
      versions.push_back(version);
  }
  std::reverse(versions.begin(), versions.end());
  const bool has_last = std::ranges::find(on_disk, StateVersion(last)) != on_disk.end();
  if (has_last && last >= repetition.restorable_from) versions.emplace_back(last);
  return versions;
}

}  // namespace

ResumedPrograms::ResumedPrograms(Reactor& reactor, Controller& controller, ClientSessions& sessions,
                                 StateWriter& writer, Options options)
    : reactor_(reactor),
      controller_(controller),
      sessions_(sessions),
      writer_(writer),
      options_(std::move(options)),
      fibers_(reactor) {}

ResumedPrograms::~ResumedPrograms() {
  is_ending_ = true;
  fibers_.cancel();
}

void ResumedPrograms::bring_back(const std::vector<ProgramRecord>& programs) {
  for (const ProgramRecord& one : programs) {
    const auto program = std::make_shared<const ProgramRecord>(one);
    const Result<SessionPtr> session = result_of([&] { return open(*program); });
    if (!session.ok()) {
      options_.log.error("a program of an earlier controller can't go on",
                         {{"program", program->name},
                          {"owner", program->owner},
                          {"why", session.error().message()}});
      continue;
    }
    fibers_.spawn("bring back a program",
                  [this, program, opened = session.value()] { serve(program, opened); });
  }
}

ResumedPrograms::SessionPtr ResumedPrograms::open(const ProgramRecord& program) {
  NoClient nobody;
  auto session = std::make_shared<ClientSessions::Session>();
  session->id = controller_.programs().add(program.name, program.owner, nobody, program.share,
                                           TakenName::kRefused);
  writer_.hold(session->id, program.owner, program.name);
  controller_.detach(session->id);
  std::set<std::string> readers;
  for (const ProgramRecord::Slice& slice : program.slices)
    readers.insert(slice.readers.begin(), slice.readers.end());
  controller_.tables().shared_states.begin_resuming(session->id, std::move(readers));
  session->owner = program.owner;
  session->key = options_.new_key();
  session->not_yet = "is brought back behind a restart of its controller";
  sessions_.add_detached(session);
  return session;
}

void ResumedPrograms::close(const SessionPtr& session, const std::string& why) {
  session->why_closed = cut(why, kTextBytesMax);
  sessions_.close(session->id);
}

void ResumedPrograms::serve(const RecordPtr& program, SessionPtr session) {
  Refusals refusals;
  for (int64_t pause_ns = kBeginAgainFirstNs;;
       pause_ns = std::min(2 * pause_ns, kBeginAgainMaxNs)) {
    const Result<StateVersion> resumed =
        result_of([&] { return resume(*program, session->id, refusals); });
    if (resumed.ok()) {
      session->not_yet.clear();
      writer_.follow(session->id);
      options_.log.info("a program goes on that an earlier controller had",
                        {{"program", program->name},
                         {"owner", program->owner},
                         {"client", session->id},
                         {"version", resumed.value().value}});
      return;
    }
    // Whatever the error of the interrupted call: the program is not tried again, its record stays.
    if (is_ending_) return;
    const Error& why = resumed.error();
    const bool is_open = sessions_.is_open(session->id);
    if (why.kind() == ErrorKind::kCancelled && is_open) throw Error(why);
    const bool begins_again = why.kind() == ErrorKind::kUnavailable || note_refusal(refusals, why);
    if (!is_open || !begins_again) {
      if (is_open) {
        options_.log.error(
            "a program of an earlier controller can't go on",
            {{"program", program->name}, {"owner", program->owner}, {"why", why.message()}});
        close(session,
              cat("it could not go on behind a restart of its controller: ", why.message()));
      }
      return writer_.follow(session->id);
    }
    options_.log.warn("a program of an earlier controller is brought back again",
                      {{"program", program->name}, {"why", why.message()}});
    close(session, cat("it is brought back again: ", why.message()));
    session = open(*program);
    WaitQueue().wait_until_ns("to bring a program back again",
                              reactor_.clock().now_ns() + pause_ns);
  }
}

// True if a host that had not refused the program has done so, and is passed over from now on.
bool ResumedPrograms::note_refusal(Refusals& refusals, const Error& why) {
  if (why.kind() != ErrorKind::kInvalid || why.where().host.empty()) return false;
  const auto at = std::ranges::find_if(controller_.tables().hosts.all(), [&](const auto& item) {
    return !item.second.lost && item.second.info.name == why.where().host;
  });
  if (at == controller_.tables().hosts.all().end()) return true;  // The host has gone meanwhile.
  if (!refusals.hosts.insert(at->first).second) return false;
  if (!refusals.first) {
    refusals.first = why;
    refusals.since_ns = reactor_.clock().now_ns();
  }
  return true;
}

// The program may come again for a while: executors that can take it may not be back yet, or others
// may hold their devices.
void ResumedPrograms::throw_refused(const Refusals& refusals, bool is_held) const {
  const Error& why = *refusals.first;
  const bool may_come =
      reactor_.clock().now_ns() < refusals.since_ns + kWholeWaitMs * kNsPerMs || is_held;
  throw Error(may_come ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
              cat(why.message(), "; no other host ", may_come ? "can take it now" : "can take it"),
              {.program = why.where().program, .node = why.where().node, .at = why.where().at},
              why.hint());
}

// Calls have numbers like a client's, since a client that attaches goes on counting from them.
StateVersion ResumedPrograms::resume(const ProgramRecord& program, SessionId id,
                                     const Refusals& refusals) {
  uint64_t calls = 0;
  Graphs graphs;
  for (const ProgramRecord::Executable& executable : program.executables) {
    auto [read, held] =
        or_begin_again([&] { return controller_.read_program(id, *executable.program); });
    graphs.push_back({std::make_shared<const Program>(std::move(read)), std::move(held)});
  }
  std::vector<SliceId> slices;
  for (uint32_t slice = 0; slice < program.slices.size(); ++slice) {
    slices.push_back(std::get<SliceId>(
        controller_.programs().once(id, {.number = ++calls}, [&](const StopToken& stop) {
          return allocate(program, slice, id, graphs, refusals, stop);
        })));
    for (const std::string& reader : program.slices[slice].readers)
      controller_.tables().shared_states.allow_read(id, slices.back(), reader);
  }
  const SliceId kept = slices.at(program.kept_slice);
  std::vector<PlanId> plans;
  for (size_t i = 0; i < program.executables.size(); ++i) {
    const ProgramRecord::Executable& executable = program.executables[i];
    std::vector<SliceId> on;
    for (const uint32_t slice : executable.slices) on.push_back(slices.at(slice));
    plans.push_back(compile(executable, graphs[i], id, on, ++calls));
    auto held = or_begin_again([&] {
      return controller_.programs().open(id).take_memory(executable.program->size(), "compile");
    });
    controller_.programs().open(id).name_executable(
        plans.back(), {executable.name, executable.program, executable.position,
                       std::make_shared<OwnerUse::Hold>(std::move(held))});
  }
  controller_.checkpoints().keep(id, kept, program.recovery);
  const StateVersion version = or_begin_again([&] { return restore(program, id, kept); });
  controller_.tables().shared_states.resumed(id);
  controller_.path().recovery().keep(id, kept, version);
  note_lost_states(id, kept, program.released_states);
  const ProgramRecord::Repetition& repetition = program.repetition;
  or_begin_again([&] {
    controller_.repeat(id,
                       {.number = ++calls,
                        .plan = plans.at(repetition.executable),
                        .steps = repetition.steps,
                        .inputs = repetition.inputs,
                        .earlier = repetition.earlier,
                        .first = RunId((id.value << kNamesOfSession) + 1),
                        .position = repetition.position,
                        .begin = static_cast<int64_t>(version.value - repetition.first_version)});
  });
  return version;
}

// The program goes on without these states.
void ResumedPrograms::note_lost_states(SessionId id, SliceId slice,
                                       const std::vector<std::string>& names) {
  if (names.empty()) return;
  controller_.tables().slices.at(slice, id).lost_states.insert(names.begin(), names.end());
  controller_.programs().warn(id, goes_on_without(names, "its controller was started again"));
}

SliceId ResumedPrograms::allocate(const ProgramRecord& program, uint32_t slice, SessionId id,
                                  Graphs& graphs, const Refusals& refusals, const StopToken& stop) {
  SharedTables& tables = controller_.tables();
  const SliceShape& asked = program.slices[slice].shape;
  const std::vector<std::string>& elastic = program.recovery.elastic;
  std::map<size_t, ProgramOnSlice> on;
  std::vector<ProgramOnSlice> all;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const std::vector<uint32_t>& slices = program.executables[i].slices;
    const auto at = std::ranges::find(slices, slice);
    if (at == slices.end()) continue;
    on[i] = {graphs[i].program, static_cast<uint32_t>(at - slices.begin())};
    all.push_back(on[i]);
  }
  bool is_held = false, is_for_devices = true;  // Causes of refusals; the latter of the last one.
  const auto try_shape = [&](SliceShape shape, int64_t wait_ms) {
    shape.wait_ms = wait_ms;
    const auto tried = result_of([&] { return controller_.allocate(id, shape, stop).id; });
    is_for_devices = tried.ok() || tables.slice_queue.lacks_devices(id, shape);
    return result_of([&] {
      const SliceId lies = tried.value();
      const auto elsewhere =
          tables.slice_queue.leave_hosts(tables.slices.at(lies, id).id, refusals.hosts);
      if (elsewhere == SliceTable::Elsewhere::kLies) return lies;
      is_held = is_held || elsewhere == SliceTable::Elsewhere::kIsHeld;
      tables.slices.release(lies);
      throw Error(ErrorKind::kOverloaded, "allocate: no devices of hosts that did not refuse it");
    });
  };
  const int64_t until_ns = reactor_.clock().now_ns() + kSliceWaitMsMax * kNsPerMs;
  for (int64_t wait_ms = elastic.empty() ? kSliceWaitMsMax : kWholeWaitMs;;
       wait_ms = std::min(2 * wait_ms, kSliceWaitMsMax)) {
    const int64_t whole_until_ns = reactor_.clock().now_ns() + wait_ms * kNsPerMs;
    Result<SliceId> got = try_shape(asked, wait_ms);
    if (got.ok()) return got.value();
    const Error whole = got.error();
    Shrinking shrinking(all, asked, elastic);
    while (!got.ok() && is_refusal(got.error()) && shrinking.next())
      got = try_shape(shrinking.shape(), 0);
    if (got.ok()) {
      tables.slices.at(got.value(), id).asked = asked;
      for (const auto& [i, one] : on) graphs[i].program = shrinking.shrunk(one);
      options_.log.warn("a program goes on on fewer devices than it had",
                        {{"program", program.name},
                         {"owner", program.owner},
                         {"devices", shrinking.shape().devices}});
      return got.value();
    }
    if (!is_refusal(got.error())) throw Error(got.error());
    if (is_for_devices && !refusals.hosts.empty()) throw_refused(refusals, is_held);
    // The allocation was refused before its wait was over, so waiting longer does not help.
    const int64_t now_ns = reactor_.clock().now_ns();
    if (now_ns < whole_until_ns || now_ns >= until_ns) throw Error(whole);
  }
}

PlanId ResumedPrograms::compile(const ProgramRecord::Executable& executable, Graph& graph,
                                SessionId id, const std::vector<SliceId>& slices, uint64_t call) {
  const CallTable::Created compiled = or_begin_again([&] {
    return controller_.programs().once(id, {.number = call}, [&](const StopToken&) {
      return controller_
          .compile(id, *graph.program, slices,
                   {.runs_in_flight_max = executable.runs_in_flight_max,
                    .dispatch = executable.dispatch,
                    .pacer = options_.pacer,
                    .held = std::move(graph.held),
                    .states_since = StateVersion(executable.states_since),
                    .texts = executable.texts})
          .id;
    });
  });
  return std::get<PlanId>(compiled);
}

StateVersion ResumedPrograms::restore(const ProgramRecord& program, SessionId id, SliceId slice) {
  const ProgramRecord::Repetition& repetition = program.repetition;
  Checkpoints& checkpoints = controller_.checkpoints();
  std::vector<StateVersion> versions;
  // Otherwise the checkpoints there are those of an earlier program of the name.
  if (program.is_checkpointed) versions = candidates(checkpoints.on_disk(id), repetition);
  std::string why = "it was to go on from version ";
  why += cat(repetition.restorable_from, " or a later one, and there is no checkpoint of it");
  for (const StateVersion version : versions) {
    const Result<void> restored = result_of([&] { checkpoints.restore(slice, version); });
    if (restored.ok()) return version;
    if (restored.error().kind() != ErrorKind::kInvalid) throw Error(restored.error());
    why = restored.error().message();
    options_.log.warn("a checkpoint can't be restored",
                      {{"program", program.name}, {"version", version.value}, {"why", why}});
  }
  if (repetition.restorable_from > 0) throw Error(ErrorKind::kInvalid, why);
  return {};
}

}  // namespace gangway
