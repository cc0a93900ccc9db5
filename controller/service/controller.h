// The controller: registers hosts and clients, allocates devices and memory, and schedules runs. It
// uses no sockets: service.h puts it on a network.
//
// Threads: the reactor's thread. read_program(), compile() and allocate() suspend; nothing else
// does.
// Ownership: peers are borrowed until host_lost() or session_closed(); what still comes of them
// afterwards is ignored.
// Errors: bad requests of a client are that client's errors; a malformed frame throws, and the
// caller ends its connection.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/recovery/host_watch.h"
#include "controller/resources/slice_queue.h"
#include "protocol/reported.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct ControllerOptions {
  // A host that sends nothing for so long is lost; it is suspect after 2 s, or half of it.
  int64_t host_timeout_ms = 10'000;
  Logger log;
  Quotas quotas;
  std::string policy = "fair";  // Where programs share devices: "fifo", "fair" or "priority".
  // Of each client: how many runs, and how many puts and gets, it may have submitted that have not
  // ended.
  uint32_t run_credits = 1024, copy_credits = 1024;
  std::shared_ptr<ChargeLog> charge_log;  // Null: nobody looks.
  PlantedControllerBugs planted;
};

struct ControllerCounts {
  uint64_t hosts = 0, clients = 0, slices = 0, plans = 0, arrays = 0, runs = 0, copies = 0;

  // Of all but the hosts: 0 once all clients have gone and what they held is freed.
  uint64_t total() const { return clients + slices + plans + arrays + runs + copies; }
};

// What a client runs.
struct ProgramCounts {
  SessionId id;
  std::string name, owner;
  Share share;
  double used = 0;  // Part of the time of the devices that it may run on, over the last second.
  uint64_t runs_waiting = 0, runs_in_flight = 0, runs_done = 0;
  std::string waits_for;           // "8 devices, for 12.00 s": slices; empty: none.
  uint64_t credits_used = 0;       // Runs that its client has not been told the end of.
  Reported reported;               // What it said last of itself.
  int64_t memory_bytes = 0;        // Reserved for it, on all devices together.
  std::vector<std::string> hosts;  // On which its slices lie, and on how many devices.
  uint32_t devices = 0;
};

class Controller {
 public:
  explicit Controller(Reactor& reactor, ControllerOptions options = {});

  HostId add_host(HostInfo info, ExecutorPeer& peer);
  void host_lost(HostId host, const Error& why) { watch_.lose(host, why); }
  void on_message(HostId host, Message message);

  // `owner`: who uses it (protocol/owner.h).
  SessionId add_session(std::string name, std::string owner, ClientPeer& peer,
                        const Share& share = {});
  void set_share(SessionId session, const Share& share);
  // What its program says of itself from now on.
  void report(SessionId session, Reported numbers);
  void session_closed(SessionId session);
  void on_message(SessionId session, Message message);

  // Suspends where the shape says that the client waits, up to a request to stop at most.
  const SliceRecord& allocate(SessionId session, const SliceShape& shape,
                              const StopToken& stop = {});
  void release_slice(SliceId slice);
  // Suspends. From the wire form, verified.
  Program read_program(std::vector<std::byte> bytes);
  // Suspends.
  const PlanRecord& compile(SessionId session, Program program, const std::vector<SliceId>& slices,
                            CompileRequest request);
  void release_plan(PlanId plan);

  // Looks for silent hosts and for runs past their time limit; says when to look again.
  int64_t tick(int64_t now_ns);

  HostTable& hosts() { return hosts_; }
  ControllerCounts counts() const;
  std::vector<ProgramCounts> programs() const;
  uint32_t run_credits() const { return options_.run_credits; }
  uint32_t copy_credits() const { return options_.copy_credits; }
  // By host: runs, and (counted where its stream is) frames and bytes.
  Metrics& metrics() { return metrics_; }
  // Woken when tick() must be called earlier than it said.
  WaitQueue& deadline_moved() { return deadline_moved_; }

 private:
  struct Session {
    std::string name, owner;
    std::string
        holder;  // As messages about memory name it, and so for every run that reserves some.
    ClientPeer& peer;
    Share share;
    uint64_t runs = 0, copies = 0;  // That have not ended.
    uint64_t runs_done = 0;
    Reported reported;
  };
  void start_copy(SessionId session, CopyFrame frame);
  void run_ended(SessionId session, RunDoneFrame done);
  void copy_ended(SessionId session, const CopyDoneFrame& done);
  // Throws kUnavailable when it was closed.
  void require_open(SessionId session) const;
  void tell(SessionId session, const Message& message);
  // Its client's user, and the controller's log.
  void warn(SessionId session, const std::string& line);
  std::string holder_name(SessionId session) const;
  // What the owner of this session would hold beyond its quota.
  std::optional<OverQuota> over_quota(SessionId session, const SliceShape& shape) const;
  std::string over_memory(const std::string& holder, int64_t bytes) const;

  Reactor& reactor_;
  ControllerOptions options_;
  Metrics metrics_;
  HostTable hosts_;
  SliceTable slices_;
  SliceQueue slice_queue_;
  ObjectTable objects_;
  Background background_;
  PlanTable plans_;
  RunTable runs_;
  CopyTable copies_;
  StuckBoard stuck_;
  HostWatch watch_;
  std::map<SessionId, Session> sessions_;
  WaitQueue deadline_moved_;
  uint64_t last_session_ = 0;
};

}  // namespace gangway
