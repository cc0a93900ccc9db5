#include "client/session_wire.h"

#include <cstddef>
#include <variant>

#include "ir/wire/wire.h"
#include "protocol/install.h"
#include "protocol/rpc_values.h"

namespace gangway::internal {
namespace {

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
                    .scope = from.getScope(),
                    .inputs = read_ports(from.getInputs()),
                    .outputs = read_ports(from.getOutputs()),
                    .states = read_ports(from.getStates()),
                    .sources = from.getSources(),
                    .text = from.getText().cStr()};
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
    const auto bytes = executable.getProgram();
    const auto* const first = reinterpret_cast<const std::byte*>(bytes.begin());
    HeldExecutable& to = held.executables.emplace_back();
    to.name = executable.getName().cStr();
    to.plan = read_compiled(executable.getCompiled());
    to.program = program_from_wire({first, bytes.size()});
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

}  // namespace gangway::internal
