#include "client/status_calls.h"

namespace gangway::internal {

ClusterStatus read_status(wire::Controller::StatusResults::Reader from, uint64_t self) {
  ClusterStatus status{.metrics = from.getMetrics().cStr()};
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
                            .is_drained = line.getDrained()});
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

ProgramLog read_log(ControllerConnection& connection, const std::string& name,
                    const LogRequest& request) {
  const auto response =
      connection.ask_controller<wire::Controller::LogsResults>([&](auto& controller) {
        auto asked = controller.logsRequest();
        write(asked.initVersion(), Version{});
        asked.setName(name);
        asked.setProgram(request.program);
        asked.setAfter(request.after);
        asked.setWaitMs(request.wait_ms);
        return asked.send();
      });
  ProgramLog log{.program = response.getProgram(),
                 .lines = {},
                 .last = response.getLast(),
                 .ended = response.getEnded()};
  for (auto line : response.getLines()) {
    log.lines.push_back({.number = line.getNumber(),
                         .time_ns = line.getTimeNs(),
                         .of_program = line.getOfProgram(),
                         .text = line.getText().cStr()});
  }
  return log;
}

}  // namespace gangway::internal
