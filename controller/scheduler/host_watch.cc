#include "controller/scheduler/host_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gangway {
namespace {

constexpr int64_t kNsOfMs = 1'000'000;
constexpr int64_t kLookNs = 500 * kNsOfMs;         // Longest time between two ticks.
constexpr int64_t kReadOutNs = 20 * kNsOfMs;       // Long enough to read what lies in the sockets.
constexpr int64_t kStandstillNs = 1000 * kNsOfMs;  // Shortest standstill that is logged.

}  // namespace

HostWatch::HostWatch(HostTable& hosts, PlanTable& plans, HostTransfers& transfers, RunTable& runs,
                     StuckBoard& stuck, Metrics& metrics, Options options)
    : hosts_(hosts),
      plans_(plans),
      transfers_(transfers),
      runs_(runs),
      stuck_(stuck),
      options_(std::move(options)),
      lost_total_(metrics.counter("gangway_hosts_lost_total", "Hosts that were declared lost")) {}

HostRecord* HostWatch::heard_of(HostId id, int64_t now_ns) {
  HostRecord* host = hosts_.find(id);
  if (host == nullptr || host->lost) return nullptr;
  host->last_heard_ns = now_ns;
  ++host->heard;
  if (host->suspect) {
    clear_suspicion(*host);
    options_.log.warn("host is no longer suspect", {{"host", host->info.name}});
  }
  return host;
}

void HostWatch::lose(HostId id, const Error& reason, HostEnd end) {
  HostRecord* host = hosts_.find(id);
  if (host == nullptr || host->lost) return;
  const Error why(ErrorKind::kUnavailable,
                  cat("host \"", host->info.name, "\" is gone: ", reason.message()),
                  {.host = host->info.name},
                  "allocate a new slice, compile again, and restore state from a checkpoint");
  options_.log.log(host->users > 0 || host->suspect ? LogLevel::kWarn : LogLevel::kInfo,
                   end == HostEnd::kLost ? "host lost" : "host has left",
                   {{"host", host->info.name}, {"why", reason.message()}});
  if (end == HostEnd::kLost) lost_total_.add();
  clear_suspicion(*host);
  host->lost = why;
  if (options_.on_lost) options_.on_lost(*host, why);
  ExecutorPeer& peer = *std::exchange(host->peer, nullptr);
  host->gone.request_stop(why);
  hosts_.keep(id);  // The calls below need the record.
  plans_.host_lost(id, why);
  transfers_.host_lost(id, why);
  runs_.host_lost(id, why);
  stuck_.update(*host, {});  // After runs_, since the errors of its runs say where they were stuck.
  hosts_.names().gone(host->info.name, host->last_heard_ns, reason.message());
  hosts_.drop(id);
  hosts_.freed().raise();  // Devices there may have been kept for a waiting client: look elsewhere.
  peer.hang_up();
}

void HostWatch::suspect(HostRecord& host, int64_t silent_ns) {
  host.suspect = true;
  host.suspect_gauge.set(1);
  options_.log.warn("host is suspect",
                    {{"host", host.info.name}, {"silent_ms", silent_ns / kNsOfMs}});
}

void HostWatch::clear_suspicion(HostRecord& host) {
  host.suspect = false;
  host.suspect_gauge.set(0);
}

int64_t HostWatch::late_ns(int64_t now_ns) const {
  return asked_ns_ == 0 ? 0 : std::max<int64_t>(0, now_ns - asked_ns_);
}

// Moves each host's last sign of life by the delay of this tick.
void HostWatch::forgive_standstill(int64_t now_ns) {
  const int64_t late = late_ns(now_ns);
  if (late == 0) return;
  if (late >= kStandstillNs)
    options_.log.warn("this process stood still", {{"for_ms", late / kNsOfMs}});
  for (auto& [id, host] : hosts_.all())
    host.last_heard_ns = std::min(now_ns, host.last_heard_ns + late);
}

int64_t HostWatch::tick(int64_t now_ns) {
  forgive_standstill(now_ns);
  hosts_.names().forget_old(now_ns);
  const bool judge = judge_ns_ && now_ns >= *judge_ns_;
  bool silent = false;
  int64_t next_ns = now_ns + kLookNs;
  std::vector<HostId> lost;
  for (auto& [id, host] : hosts_.all()) {
    if (host.lost) continue;
    const int64_t silent_ns = now_ns - host.last_heard_ns;
    const int64_t patience_ns =
        (host.suspect ? options_.lost_after_ms : options_.suspect_after_ms) * kNsOfMs;
    if (silent_ns < patience_ns) {
      next_ns = std::min(next_ns, host.last_heard_ns + patience_ns);
    } else if (!judge) {
      silent = true;
    } else if (silent_ns >= options_.lost_after_ms * kNsOfMs) {
      lost.push_back(id);
    } else if (!host.suspect) {
      suspect(host, silent_ns);
    }
  }
  for (HostId id : lost) {
    lose(id, Error(ErrorKind::kUnavailable,
                   cat("it has said nothing for ", options_.lost_after_ms, " ms")));
  }
  if (judge || !silent) judge_ns_.reset();
  if (silent && !judge_ns_) judge_ns_ = now_ns + kReadOutNs;
  if (judge_ns_) next_ns = std::min(next_ns, *judge_ns_);
  asked_ns_ = next_ns;
  return next_ns;
}

}  // namespace gangway
