#include "controller/service/resumed_programs.h"

#include <algorithm>
#include <utility>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/fibers/kj_error.h"

namespace gangway {
namespace {

constexpr int64_t kBeginAgainFirstNs = 1'000'000'000, kBeginAgainMaxNs = 60'000'000'000;
constexpr int kNamesOfSession = 40;  // Bits of what a client names, behind its session's number.

// Of a program that has no client yet.
class NoClient final : public ClientPeer {
 public:
  void send(const Frame&) override {}
};

// Those from which the states at `from` or later follow, the best first. Of the last one nobody
// would know what its step gave.
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

ResumedPrograms::~ResumedPrograms() = default;

void ResumedPrograms::bring_back(const std::vector<ProgramRecord>& programs) {
  for (const ProgramRecord& one : programs) {
    const auto program = std::make_shared<const ProgramRecord>(one);
    fibers_.spawn("bring back a program",
                  [this, program, session = open(*program)] { serve(program, session); });
  }
}

ResumedPrograms::SessionPtr ResumedPrograms::open(const ProgramRecord& program) {
  NoClient nobody;
  auto session = std::make_shared<ClientSessions::Session>();
  session->id = controller_.add_session(program.name, program.owner, nobody, program.share,
                                        TakenName::kRefused);
  writer_.hold(session->id, program.owner, program.name);
  controller_.detach(session->id);
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
  for (int64_t pause_ns = kBeginAgainFirstNs;;
       pause_ns = std::min(2 * pause_ns, kBeginAgainMaxNs)) {
    const Result<StateVersion> resumed = result_of([&] { return resume(*program, session->id); });
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
    const Error& why = resumed.error();
    const bool is_open = sessions_.is_open(session->id);
    if (why.kind() == ErrorKind::kCancelled && is_open) throw Error(why);
    if (!is_open || why.kind() != ErrorKind::kUnavailable) {
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

// Calls are numbered as those of a client are, which who attaches goes on counting.
StateVersion ResumedPrograms::resume(const ProgramRecord& program, SessionId id) {
  uint64_t calls = 0;
  std::vector<SliceId> slices;
  for (const ProgramRecord::Slice& slice : program.slices) {
    SliceShape shape = slice.shape;
    shape.wait_ms = kSliceWaitMsMax;
    slices.push_back(
        std::get<SliceId>(controller_.once(id, {.number = ++calls}, [&](const StopToken& stop) {
          return controller_.allocate(id, shape, stop).id;
        })));
    for (const std::string& reader : slice.readers)
      controller_.shared_states(id).allow_read(id, slices.back(), reader);
  }
  std::vector<PlanId> plans;
  for (const ProgramRecord::Executable& executable : program.executables) {
    std::vector<SliceId> on;
    for (const uint32_t slice : executable.slices) on.push_back(slices.at(slice));
    plans.push_back(compile(executable, id, on, ++calls));
    const size_t bytes = executable.program->size();
    controller_.name_executable(
        id, plans.back(),
        {executable.name, executable.program, executable.position,
         std::make_shared<OwnerUse::Hold>(controller_.take_memory(id, bytes, "compile"))});
  }
  const SliceId kept = slices.at(program.kept_slice);
  controller_.checkpoints().keep(id, kept, program.recovery);
  const StateVersion version = restore(program, id, kept);
  const ProgramRecord::Repetition& repetition = program.repetition;
  controller_.repeat(id, {.number = ++calls,
                          .plan = plans.at(repetition.executable),
                          .steps = repetition.steps,
                          .inputs = repetition.inputs,
                          .first = RunId((id.value << kNamesOfSession) + 1),
                          .position = repetition.position,
                          .begin = static_cast<int64_t>(version.value - repetition.first_version)});
  return version;
}

PlanId ResumedPrograms::compile(const ProgramRecord::Executable& executable, SessionId id,
                                const std::vector<SliceId>& slices, uint64_t call) {
  const Result<CallTable::Made> compiled = result_of([&] {
    return controller_.once(id, {.number = call}, [&](const StopToken&) {
      auto [read, held] = controller_.read_program(id, *executable.program);
      return controller_
          .compile(id, std::move(read), slices,
                   {.runs_in_flight_max = executable.runs_in_flight_max,
                    .dispatch = executable.dispatch,
                    .pacer = options_.pacer,
                    .held = std::move(held),
                    .states_since = StateVersion(executable.states_since),
                    .texts = executable.texts})
          .id;
    });
  });
  if (compiled.ok()) return std::get<PlanId>(compiled.value());
  const Error& why = compiled.error();
  // Who holds what it needs may let it go.
  if (why.kind() == ErrorKind::kOverloaded)
    throw Error(ErrorKind::kUnavailable, why.message(), why.where(), why.hint());
  throw Error(why);
}

StateVersion ResumedPrograms::restore(const ProgramRecord& program, SessionId id, SliceId slice) {
  const ProgramRecord::Repetition& repetition = program.repetition;
  Checkpoints& checkpoints = controller_.checkpoints();
  std::vector<StateVersion> versions;
  // Else what lies there is of an earlier program of the name.
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
