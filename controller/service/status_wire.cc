#include "controller/service/status_wire.h"

#include "protocol/rpc_values.h"
#include "runtime/base/cat.h"
#include "runtime/os/user.h"

namespace gangway {
namespace {

// `in_full`: also the programs in which its devices are stuck.
void write_host(wire::HostStatus::Builder to, const HostRecord& host, const HostTable& hosts,
                int64_t now_ns, bool in_full) {
  auto description = to.initHost();
  description.setName(host.info.name);
  description.setDevices(host.info.devices);
  description.setMemoryBytes(host.info.memory_bytes);
  description.setKind(host.info.kind);
  description.setText(host.info.text);
  description.setProcess(host.info.process.pid);
  description.setIsland(host.info.island);
  to.setMemoryUsed(host.reserved.max());
  to.setRunsDone(host.runs);
  to.setSuspectMs(host.suspect ? (now_ns - host.last_heard_ns) / 1'000'000 : 0);
  to.setDraining(!hosts.takes_slices(host));
  to.setCertificateEndsS(host.info.certificate_ends_s);
  to.setDrained(!hosts.takes_slices(host) && host.users == 0);
  auto stuck = to.initStuck(static_cast<uint32_t>(host.stuck.size()));
  for (uint32_t i = 0; i < stuck.size(); ++i) {
    const StuckDevice& one = host.stuck[i];
    stuck.set(i, in_full ? to_text(one) : cat("device ", one.device, " is stuck"));
  }
}

// `in_full`: also its name, what it waits for and the numbers that it reports, besides its owner
// and what it uses.
void write_program(wire::ProgramStatus::Builder to, const ProgramCounts& program, bool in_full) {
  to.setId(program.id.value);
  to.setName(in_full ? program.name : "");
  to.setOwner(program.owner);
  write(to.initShare(), program.share);
  to.setUsed(program.used);
  to.setRunsWaiting(program.runs_waiting);
  to.setRunsInFlight(program.runs_in_flight);
  to.setRunsDone(program.runs_done);
  to.setWaitsFor(in_full ? program.waits_for : "");
  to.setMemoryBytes(program.memory_bytes);
  to.setDevices(program.devices);
  to.setDetached(program.detached);
  to.setSuspended(program.suspended);
  to.setHostBytes(program.host_bytes);
  to.setCheckpoint(program.checkpoint.value_or(StateVersion()).value);
  auto hosts = to.initHosts(static_cast<uint32_t>(program.hosts.size()));
  for (uint32_t i = 0; i < hosts.size(); ++i) hosts.set(i, program.hosts[i]);
  if (!in_full) return;
  write(to.initReported(static_cast<uint32_t>(program.reported.size())), program.reported);
}

}  // namespace

void write_status(wire::Controller::StatusResults::Builder to, Controller& controller,
                  const std::string& owner, int64_t now_ns) {
  std::vector<const HostRecord*> there;
  for (const auto& [id, host] : controller.tables().hosts.all()) {
    if (!host.lost) there.push_back(&host);
  }
  const bool all_in_full = owner == own_user_name();
  auto hosts = to.initHosts(static_cast<uint32_t>(there.size()));
  for (uint32_t i = 0; i < hosts.size(); ++i)
    write_host(hosts[i], *there[i], controller.tables().hosts, now_ns, all_in_full);
  const std::vector<ProgramCounts> all = controller.program_counts();
  auto programs = to.initPrograms(static_cast<uint32_t>(all.size()));
  for (uint32_t i = 0; i < programs.size(); ++i)
    write_program(programs[i], all[i], all_in_full || all[i].owner == owner);
}

}  // namespace gangway
