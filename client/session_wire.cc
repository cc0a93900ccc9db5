#include "client/session_wire.h"

#include <cstddef>
#include <span>
#include <variant>

#include "ir/plan/plan_wire.h"
#include "ir/wire/wire.h"
#include "protocol/error_wire.h"
#include "protocol/install.h"
#include "protocol/rpc_values.h"
#include "protocol/segment_wire.h"

namespace gangway::internal {
namespace {

std::span<const std::byte> bytes_of(capnp::Data::Reader from) {
  return {reinterpret_cast<const std::byte*>(from.begin()), from.size()};
}

void write_schedule(wire::Session::ScheduledInput::Builder to, const Schedule& schedule) {
  auto line = to.initLinear();
  line.setFirst(schedule.first);
  line.setSlope(schedule.slope);
}

}  // namespace

std::vector<PlanPort> read_ports(capnp::List<wire::Session::Port>::Reader list) {
  std::vector<PlanPort> ports;
  for (auto port : list) {
    PlanPort& to = ports.emplace_back();
    to.name = port.getName().cStr();
    GW_REQUIRE(port.getDtype() < kDTypeCount, "a reply with an unknown dtype");
    to.type.dtype = static_cast<DType>(port.getDtype());
    for (int64_t dim : port.getDims()) to.type.dims.push_back(dim);
  }
  return ports;
}

CompiledPlan read_compiled(wire::Session::Compiled::Reader from) {
  CompiledPlan plan{.plan = PlanId(from.getPlan()),
                    .inputs = read_ports(from.getInputs()),
                    .outputs = read_ports(from.getOutputs()),
                    .states = read_ports(from.getStates()),
                    .sources = from.getSources()};
  for (auto host : from.getNeeds()) {
    for (const DeviceNeed& need : read(host.getNeeds())) {
      plan.memory.devices.push_back({need, host.getHost().cStr()});
    }
  }
  return plan;
}

HeldByProgram read_holdings(wire::Session::HoldingsResults::Reader from) {
  HeldByProgram held{.slices = {}, .executables = {}, .last_name = from.getLastName()};
  for (auto slice : from.getSlices())
    held.slices.push_back({slice.getId(), slice.getDevices(), slice.getRanksPerDevice()});
  for (auto executable : from.getExecutables()) {
    HeldExecutable& to = held.executables.emplace_back();
    to.name = executable.getName().cStr();
    to.plan = read_compiled(executable.getCompiled());
    to.program = program_from_wire(bytes_of(executable.getProgram()));
    for (const uint64_t slice : executable.getSlices()) to.slices.push_back(slice);
    to.runs_in_flight_max = executable.getRunsInFlightMax();
    to.position = executable.getPosition();
  }
  return held;
}

void write_inputs(capnp::List<wire::Session::ScheduledInput>::Builder to,
                  const std::vector<ScheduledInput>& inputs) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setInput(inputs[i].input);
    if (const auto* bytes = std::get_if<std::vector<std::byte>>(&inputs[i].value)) {
      to[i].setConstant(
          kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes->data()), bytes->size()));
    } else {
      write_schedule(to[i], std::get<Schedule>(inputs[i].value));
    }
  }
}

RepeatReport read_repetition(wire::Session::RepetitionResults::Reader from) {
  RepeatReport reported{.number = from.getNumber(),
                        .position = from.getPosition(),
                        .status = {.steps = from.getSteps(),
                                   .done = from.getDone(),
                                   .ended = from.getEnded(),
                                   .error = {},
                                   .outputs = read(from.getOutputs())}};
  if (from.hasError()) reported.status.error = read_error(from.getError());
  return reported;
}

void write_reading(wire::Session::ReadStatesParams::Builder to, const StatesRequest& asked) {
  to.setStates(asked.states);
  to.setVersion(asked.version.value_or(0));
  to.setLatest(!asked.version);
  write_segment(to.initSegment(), asked.segment);
  auto parts = to.initParts(static_cast<uint32_t>(asked.parts.size()));
  for (uint32_t i = 0; i < parts.size(); ++i) {
    parts[i].setName(asked.parts[i].name);
    parts[i].setOffset(asked.parts[i].offset);
    parts[i].setBytes(asked.parts[i].bytes);
  }
  to.setErrorInAnswer(true);
}

ProgramGraph read_graph(wire::Controller::GraphResults::Reader from) {
  ProgramGraph graph{.program = program_from_wire(bytes_of(from.getProgram())),
                     .plan = plan_from_wire(bytes_of(from.getPlan())),
                     .kinds = {},
                     .placed = {}};
  for (auto kind : from.getKinds()) graph.kinds.emplace_back(kind.cStr());
  for (auto placed : from.getPlaced()) graph.placed.emplace_back(placed.cStr());
  return graph;
}

ClusterStatus read_status(wire::Controller::StatusResults::Reader from, uint64_t self) {
  ClusterStatus status{.metrics = from.getMetrics().cStr(),
                       .certificate_ends_s = from.getCertificateEndsS()};
  for (auto line : from.getHosts()) {
    auto host = line.getHost();
    status.hosts.push_back({.name = host.getName().cStr(),
                            .kind = host.getKind().cStr(),
                            .text = host.getText().cStr(),
                            .island = host.getIsland().cStr(),
                            .devices = host.getDevices(),
                            .memory_bytes = host.getMemoryBytes(),
                            .memory_used = line.getMemoryUsed(),
                            .runs_done = line.getRunsDone(),
                            .suspect_ms = line.getSuspectMs(),
                            .stuck = {},
                            .is_draining = line.getDraining(),
                            .is_drained = line.getDrained(),
                            .certificate_ends_s = line.getCertificateEndsS()});
    for (auto device : line.getStuck()) status.hosts.back().stuck.emplace_back(device.cStr());
  }
  for (auto line : from.getPrograms()) {
    status.programs.push_back({.id = line.getId(),
                               .name = line.getName().cStr(),
                               .owner = line.getOwner().cStr(),
                               .share = read(line.getShare()),
                               .used = line.getUsed(),
                               .runs_waiting = line.getRunsWaiting(),
                               .runs_in_flight = line.getRunsInFlight(),
                               .runs_done = line.getRunsDone(),
                               .reported = read(line.getReported()),
                               .memory_bytes = line.getMemoryBytes(),
                               .devices = line.getDevices(),
                               .waits_for = line.getWaitsFor().cStr(),
                               .is_self = line.getId() == self,
                               .detached = line.getDetached(),
                               .suspended = line.getSuspended(),
                               .host_bytes = line.getHostBytes(),
                               .checkpoint = line.getCheckpoint()});
    for (auto host : line.getHosts()) status.programs.back().hosts.emplace_back(host.cStr());
  }
  return status;
}

kj::Promise<capnp::Response<wire::Session::LogResults>> send_lines(wire::Session::Client& session,
                                                                   const LogLines::Call& call) {
  auto request = session.logRequest();
  request.setFirst(call.first);
  auto lines = request.initLines(static_cast<uint32_t>(call.lines.size()));
  for (uint32_t i = 0; i < lines.size(); ++i) lines.set(i, call.lines[i]);
  return request.send();
}

ProgramLog read_log(wire::Controller::LogsResults::Reader from) {
  ProgramLog log{
      .program = from.getProgram(), .lines = {}, .last = from.getLast(), .ended = from.getEnded()};
  for (auto line : from.getLines()) {
    log.lines.push_back({.number = line.getNumber(),
                         .time_ns = line.getTimeNs(),
                         .of_program = line.getOfProgram(),
                         .text = line.getText().cStr()});
  }
  return log;
}

}  // namespace gangway::internal
