#include "controller/recovery/host_watch.h"

#include <utility>
#include <vector>

namespace gangway {

HostRecord* HostWatch::heard_of(HostId id, int64_t now_ns) {
  HostRecord* host = hosts_.find(id);
  if (host == nullptr || host->lost) return nullptr;
  host->last_heard_ns = now_ns;
  return host;
}

void HostWatch::lose(HostId id, const Error& reason) {
  HostRecord* host = hosts_.find(id);
  if (host == nullptr || host->lost) return;
  const Error why(ErrorKind::kUnavailable,
                  cat("host \"", host->info.name, "\" is gone: ", reason.message()),
                  {.host = host->info.name},
                  "allocate a new slice, compile again, and restore state from a checkpoint");
  host->lost = why;
  ExecutorPeer& peer = *std::exchange(host->peer, nullptr);
  host->gone.request_stop(why);
  hosts_.keep(id);  // Until all that is below has heard of it.
  plans_.host_lost(id, why);
  copies_.host_lost(id, why);
  runs_.host_lost(id, why);
  hosts_.drop(id);
  peer.hang_up();
}

int64_t HostWatch::tick(int64_t now_ns) {
  const int64_t patience_ns = timeout_ms_ * 1'000'000;
  std::vector<HostId> silent;
  for (const auto& [id, host] : hosts_.all()) {
    if (!host.lost && now_ns - host.last_heard_ns > patience_ns) silent.push_back(id);
  }
  for (HostId id : silent) {
    lose(id, Error(ErrorKind::kUnavailable, cat("it has said nothing for ", timeout_ms_, " ms")));
  }
  return now_ns + patience_ns / 4;
}

}  // namespace gangway
