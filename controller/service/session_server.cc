#include "controller/service/session_server.h"

#include <utility>

#include "protocol/checkpoint_wire.h"
#include "protocol/error_wire.h"
#include "protocol/program_log.h"
#include "protocol/rpc_values.h"
#include "protocol/segment_wire.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/kj_error.h"

namespace gangway {
namespace {

// Counted for the error of a read that the reader has not released.
constexpr size_t kKeptErrorBytes = size_t{4} << 10;

void write_port(wire::Session::Port::Builder to, const std::string& name, const Type& type) {
  to.setName(name);
  to.setDtype(static_cast<uint8_t>(type.dtype));
  auto dims = to.initDims(static_cast<uint32_t>(type.dims.size()));
  for (uint32_t i = 0; i < dims.size(); ++i) dims.set(i, type.dims[i]);
}

template <class List>
void write_ports(List list, const Plan& plan, const std::vector<uint32_t>& values) {
  for (uint32_t i = 0; i < list.size(); ++i) {
    const PlanValue& value = plan.values[values[i]];
    write_port(list[i], value.name, value.type);
  }
}

void write_compiled(wire::Session::Compiled::Builder to, const PlanRecord& record) {
  const Plan& plan = *record.plan;
  std::vector<uint32_t> states;
  states.reserve(plan.states.size());
  for (const PlanState& state : plan.states) states.push_back(state.value);
  const auto size = [](const auto& list) { return static_cast<uint32_t>(list.size()); };
  to.setPlan(record.id.value);
  to.setScope(record.scope);
  write_ports(to.initInputs(size(plan.inputs)), plan, plan.inputs);
  write_ports(to.initOutputs(size(plan.outputs)), plan, plan.outputs);
  write_ports(to.initStates(size(states)), plan, states);
  to.setSources(size(plan.sources));
  to.setText(record.text);
  auto hosts = to.initNeeds(size(record.needs));
  for (uint32_t i = 0; i < hosts.size(); ++i) {
    hosts[i].setHost(plan.hosts[i]);
    write(hosts[i].initNeeds(size(record.needs[i])), record.needs[i]);
  }
}

// Reports the stages of a compilation to a client. Errors of a client that is gone are ignored.
std::function<void(const CompileStage&)> teller(wire::CompileWatch::Client watch) {
  const auto to = std::make_shared<wire::CompileWatch::Client>(kj::mv(watch));
  return [to](const CompileStage& at) {
    auto request = to->toldRequest();
    request.setWhat(at.what);
    request.setPart(at.part);
    request.send().ignoreResult().detach([](const kj::Exception&) {});
  };
}

SliceShape read_shape(wire::Session::AllocateParams::Reader from) {
  SliceShape shape(from.getDevices(), from.getRanksPerDevice());
  const auto axes = from.getAxes();
  GW_REQUIRE(axes.size() <= kSliceAxesMax, "allocate: mesh: expected at most ", kSliceAxesMax,
             " axes, got ", axes.size());
  for (const uint32_t size : axes) shape.axes.push_back(size);
  shape.one_island = from.getOneIsland();
  shape.per_host_max = from.getPerHostMax();
  shape.memory_bytes = from.getMemoryBytes();
  shape.exclusive = from.getExclusive();
  shape.wait_ms = from.getWaitMs();
  return shape;
}

void write_holdings(wire::Session::HoldingsResults::Builder to, Controller& core, SessionId id) {
  const LiveProgram::Holdings all = core.programs().open(id).holdings();
  to.setLastCall(all.last_call);
  to.setReleases(all.releases);
  to.setLastName(all.last_name);
  to.setLastRequest(all.last_request);
  auto slices = to.initSlices(static_cast<uint32_t>(all.slices.size()));
  for (uint32_t i = 0; i < slices.size(); ++i) {
    const SliceRecord& slice = core.tables().slices.at(all.slices[i], id);
    slices[i].setId(slice.id.value);
    slices[i].setDevices(static_cast<uint32_t>(slice.devices.size()) * slice.ranks_per_device);
    slices[i].setRanksPerDevice(slice.ranks_per_device);
  }
  auto executables = to.initExecutables(static_cast<uint32_t>(all.executables.size()));
  for (uint32_t i = 0; i < executables.size(); ++i) {
    const auto& [plan, named] = all.executables[i];
    const PlanRecord& record = core.tables().plans.at(plan, id);
    auto held = executables[i];
    held.setName(named.name);
    write_compiled(held.initCompiled(), record);
    const auto* bytes = reinterpret_cast<const kj::byte*>(named.program->data());
    held.setProgram(kj::arrayPtr(bytes, named.program->size()));
    auto on = held.initSlices(static_cast<uint32_t>(record.slices.size()));
    for (uint32_t s = 0; s < on.size(); ++s) on.set(s, record.slices[s].value);
    held.setRunsInFlightMax(static_cast<uint32_t>(record.plan->runs_in_flight_max));
    held.setPosition(named.position);
  }
}

void write_progress(wire::Session::RepetitionResults::Builder to, const RepeatProgress& progress) {
  to.setNumber(progress.number);
  to.setSteps(progress.steps);
  to.setDone(progress.done);
  to.setPosition(progress.position);
  to.setEnded(progress.ended);
  if (progress.error) write_error(to.initError(), *progress.error);
  write(to.initOutputs(static_cast<uint32_t>(progress.outputs.size())), progress.outputs);
}

Schedule read_schedule(wire::Session::ScheduledInput::Reader from) {
  GW_REQUIRE(from.isLinear(), "repeat: a schedule of an unknown form: expected a line");
  return Schedule::linear(from.getLinear().getFirst(), from.getLinear().getSlope());
}

RepeatRequest read_repeat(wire::Session::RepeatParams::Reader from) {
  RepeatRequest request{.number = from.getNumber(),
                        .plan = PlanId(from.getPlan()),
                        .steps = from.getSteps(),
                        .inputs = {},
                        .first = RunId(from.getFirstName()),
                        .position = from.getPosition(),
                        .after = RunId(from.getAfter())};
  for (auto input : from.getInputs()) {
    ScheduledInput& to = request.inputs.emplace_back();
    to.input = input.getInput();
    if (input.isConstant()) {
      const auto bytes = input.getConstant();
      const auto* const first = reinterpret_cast<const std::byte*>(bytes.begin());
      to.value = std::vector<std::byte>(first, first + bytes.size());
    } else {
      to.value = read_schedule(input);
    }
  }
  return request;
}

SharedStateTable::Request read_request(wire::Session::ReadStatesParams::Reader from) {
  SharedStateTable::Request request{.slice = SliceId(from.getStates()),
                                    .segment = read_segment(from.getSegment())};
  if (!from.getLatest()) request.version = StateVersion(from.getVersion());
  for (auto part : from.getParts())
    request.parts.push_back({part.getName().cStr(), part.getOffset(), part.getBytes()});
  return request;
}

std::vector<std::string> read_lines(capnp::List<capnp::Text>::Reader from) {
  std::vector<std::string> lines;
  for (const auto line : from) lines.emplace_back(line.begin(), line.size());
  return lines;
}

// The calls of one session over one of its client's connections.
class SessionServer final : public wire::Session::Server {
 public:
  SessionServer(const SessionServices& services, SessionId id, uint64_t attachment)
      : core_(services.core),
        sessions_(services.sessions),
        connection_(services.connection),
        pacer_(services.pacer),
        id_(id),
        attachment_(attachment) {}

  // The wait ends when the client releases the call, and when its session is closed.
  kj::Promise<void> allocate(AllocateContext context) override {
    return connection_->serve("allocate", [this, self = thisCap(), context]() mutable {
      const auto asked = context.getParams();
      const SliceId id = once<SliceId>(
          {asked.getCall(), asked.getReleases()},
          [&](const StopToken& stop) { return core_.allocate(id_, read_shape(asked), stop).id; });
      context.getResults().setId(id.value);
    });
  }

  kj::Promise<void> report(ReportContext context) override {
    return connection_->serve("report", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      connection_->require_at_most(context.getParams().getNumbers().size(), kReportedMax,
                                   "report: numbers");
      core_.programs().open(id_).report(read(context.getParams().getNumbers()));
    });
  }

  kj::Promise<void> log(LogContext context) override {
    return connection_->serve("log", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      const auto asked = context.getParams();
      connection_->require_at_most(asked.getLines().size(), kLogLinesOfCallMax, "log: lines");
      core_.programs().log_of(id_)->say_of_client(asked.getFirst(), read_lines(asked.getLines()));
    });
  }

  kj::Promise<void> setShare(SetShareContext context) override {
    return connection_->serve("set share", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      core_.programs().open(id_).set_share(read(context.getParams().getShare()));
    });
  }

  kj::Promise<void> compile(CompileContext context) override {
    return connection_->serve("compile", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      connection_->require_at_most(params.getSlices().size(), kSlicesOfCallMax, "compile: slices");
      const PlanId id = once<PlanId>({params.getCall(), params.getReleases()},
                                     [&](const StopToken&) { return compile_now(params).id; });
      write_compiled(context.getResults(), core_.tables().plans.at(id, id_));
    });
  }

  kj::Promise<void> detach(DetachContext context) override {
    return connection_->serve("detach", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      if (sessions_.is_detached(id_)) return;  // The client repeats the call.
      core_.programs().come_behind(id_, context.getParams().getReleases(), connection_->gone());
      sessions_.detach(id_);
    });
  }

  kj::Promise<void> holdings(HoldingsContext context) override {
    return connection_->serve("holdings", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      write_holdings(context.getResults(), core_, id_);
    });
  }

  kj::Promise<void> repeat(RepeatContext context) override {
    return connection_->serve("repeat", [this, self = thisCap(), context]() mutable {
      const auto asked = context.getParams();
      sessions_.require_current(id_, attachment_);
      connection_->require_at_most(asked.getInputs().size(), kInputsOfCallMax, "repeat: inputs");
      core_.programs().come_behind(id_, asked.getReleases(), connection_->gone());
      core_.repeat(id_, read_repeat(asked), connection_->gone());
    });
  }

  // If the connection is lost, the client repeats the call over its next one.
  kj::Promise<void> repetition(RepetitionContext context) override {
    return connection_->serve("repetition", [this, self = thisCap(), context]() mutable {
      const auto asked = context.getParams();
      sessions_.require_current(id_, attachment_);
      const PlanId plan(asked.getPlan());
      if (asked.getCancel()) core_.programs().open(id_).cancel_repetition(plan);
      write_progress(context.getResults(),
                     asked.getWait()
                         ? core_.programs().open(id_).wait_for_repetition(plan, connection_->gone())
                         : core_.programs().open(id_).repetition(plan));
    });
  }

  kj::Promise<void> allowRead(AllowReadContext context) override {
    return connection_->serve("allow to read", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      const auto asked = context.getParams();
      shared_states().allow_read(id_, SliceId(asked.getSlice()), asked.getOwner().cStr());
      core_.programs().record_changed(id_);
    });
  }

  kj::Promise<void> openStates(OpenStatesContext context) override {
    return connection_->serve("open states", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      const auto opened = shared_states().open(id_, context.getParams().getProgram().cStr());
      auto results = context.getResults();
      results.setStates(opened.slice.value);
      auto list = results.initList(static_cast<uint32_t>(opened.states.size()));
      uint32_t i = 0;
      for (const auto& [name, type] : opened.states) write_port(list[i++], name, type);
    });
  }

  kj::Promise<void> readStates(ReadStatesContext context) override {
    return connection_->serve("read states", [this, self = thisCap(), context]() mutable {
      const auto asked = context.getParams();
      connection_->require_at_most(asked.getParts().size(), kStatePartsMax, "read states: parts");
      // The call's parts take memory while it waits for a version, and its error takes some until
      // the reader has released the call.
      const size_t words = asked.totalSize().wordCount * sizeof(capnp::word);
      const auto held = std::make_shared<OwnerUse::Hold>(
          core_.programs().open(id_).take_memory(kKeptErrorBytes + words, "read states"));
      const auto read =
          once<StatesRead>({asked.getCall(), asked.getReleases()}, [&](const StopToken& stop) {
            StatesRead came = shared_states().read(id_, read_request(asked), stop);
            if (came.error && !asked.getErrorInAnswer()) throw Error(*came.error);
            if (came.error) came.memory = held;
            return came;
          });
      held->shrink(words);
      context.getResults().setVersion(read.version.value);
      context.getResults().setPast(read.how == StatesRead::How::kPast);
      context.getResults().setComesAgain(read.how == StatesRead::How::kAgain);
      context.getResults().setSettled(read.is_settled);
      if (read.error) write_error(context.getResults().initError(), *read.error);
    });
  }

  kj::Promise<void> keepCheckpoints(KeepCheckpointsContext context) override {
    return connection_->serve("keep checkpoints", [this, self = thisCap(), context]() mutable {
      sessions_.require_current(id_, attachment_);
      const auto asked = context.getParams();
      connection_->require_at_most(asked.getMetadata().size(), kMetadataMax,
                                   "keep checkpoints: texts of metadata");
      connection_->require_at_most(asked.getElastic().size(), kElasticAxesMax,
                                   "keep checkpoints: elastic axes");
      core_.keep_checkpoints(id_, SliceId(asked.getSlice()), gangway::read(asked),
                             connection_->gone());
      core_.programs().record_changed(id_);
    });
  }

  kj::Promise<void> close(CloseContext) override {
    return connection_->serve_always("close", [this, self = thisCap()] {
      sessions_.require_current(id_, attachment_);
      sessions_.close(id_);
    });
  }

 private:
  // kUnavailable if the session was closed meanwhile.
  SharedStateTable& shared_states() {
    static_cast<void>(core_.programs().open(id_));
    return core_.tables().shared_states;
  }

  template <class Id, class Make>
  Id once(const CallTable::Call& call, const Make& make) {
    sessions_.require_current(id_, attachment_);
    const CallTable::Created created = core_.programs().once(id_, call, make, connection_->gone());
    const Id* const id = std::get_if<Id>(&created);
    GW_REQUIRE(id != nullptr, "call ", call.number, ": the client has asked for something else",
               " under this number");
    return *id;
  }

  const PlanRecord& compile_now(CompileParams::Reader params) {
    const auto bytes = params.getProgram();
    const auto* const first = reinterpret_cast<const std::byte*>(bytes.begin());
    const std::string name = params.getName().cStr();
    std::shared_ptr<OwnerUse::Hold> kept;
    if (!name.empty()) {
      require_executable_name(name);
      kept = std::make_shared<OwnerUse::Hold>(
          core_.programs().open(id_).take_memory(bytes.size(), "compile"));
    }
    auto [program, held] = core_.read_program(id_, {first, first + bytes.size()});
    std::vector<SliceId> slices;
    for (uint64_t slice : params.getSlices()) slices.emplace_back(slice);
    const auto dispatch = static_cast<Dispatch>(params.getDispatch());
    GW_REQUIRE(dispatch <= Dispatch::kSequential, "compile: program \"",
               cut(program.name, kQuotedBytesMax), "\": there is no dispatch number ",
               int{params.getDispatch()});
    CompileRequest request{
        .runs_in_flight_max = params.getRunsInFlightMax(), .dispatch = dispatch, .pacer = pacer_};
    request.held = std::move(held);
    if (params.hasWatch()) request.on_progress = teller(params.getWatch());
    const PlanRecord& plan = core_.compile(id_, std::move(program), slices, std::move(request));
    if (name.empty()) return plan;
    const Result<void> named = result_of([&] {
      core_.programs().open(id_).name_executable(
          plan.id,
          {name, std::make_shared<const std::vector<std::byte>>(first, first + bytes.size()), 0,
           std::move(kept)});
    });
    if (named.ok()) return plan;
    core_.path().release_plan(plan.id);
    throw Error(named.error());
  }

  Controller& core_;
  ClientSessions& sessions_;
  const std::shared_ptr<ClientConnection> connection_;
  Pacer* const pacer_;
  const SessionId id_;
  const uint64_t attachment_;
};

}  // namespace

wire::Session::Client make_session_server(const SessionServices& services, SessionId id,
                                          uint64_t attachment) {
  return kj::heap<SessionServer>(services, id, attachment);
}

}  // namespace gangway
