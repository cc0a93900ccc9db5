#include "controller/scheduler/link_watch.h"

#include <algorithm>

namespace gangway {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

bool LinkWatch::report(HostId by, const LinkBrokenFrame& broken, int64_t now_ns) {
  const std::optional<HostId> peer = plans_.written_by(by, broken.plan, broken.host);
  const HostRecord* const named = peer ? hosts_.find(*peer) : nullptr;
  if (named == nullptr || named->lost || named->id == by) return false;
  const auto [at, is_first] = reports_.try_emplace({by, named->id});
  Report& report = at->second;
  if (!is_first && !report.is_judged) return false;
  report = {.why = broken.why, .at_ns = now_ns};
  log_.warn("link between hosts is broken",
            {{"host", hosts_.at(by).info.name}, {"peer", named->info.name}, {"why", broken.why}});
  return true;
}

std::optional<int64_t> LinkWatch::tick(int64_t now_ns) {
  forget(now_ns);
  for (auto& [pair, report] : reports_) {
    if (!report.heard && now_ns >= report.at_ns + kWindowMs * kNsPerMs)
      report.heard = hosts_.at(pair.second).heard;
  }
  const std::set<HostId> silent = silent_hosts();
  std::set<Pair> pairs;
  bool waits = false;
  for (const auto& [pair, report] : reports_) {
    if (report.is_judged) continue;
    if (silent.contains(pair.first) || silent.contains(pair.second)) {
      waits = true;
    } else {
      pairs.insert(pair);
    }
  }
  if (!pairs.empty()) judge(pairs);
  return waits ? std::optional(now_ns + kLookMs * kNsPerMs) : std::nullopt;
}

bool LinkWatch::is_there(HostId id) const {
  const HostRecord* const host = hosts_.find(id);
  return host != nullptr && !host->lost;
}

// Forgets reports of hosts that are lost, and those that count no more.
void LinkWatch::forget(int64_t now_ns) {
  std::erase_if(reports_, [&](const auto& entry) {
    const auto& [pair, report] = entry;
    return !is_there(pair.first) || !is_there(pair.second) ||
           (report.is_judged && now_ns - report.at_ns > kCountsMs * kNsPerMs);
  });
}

// Hosts of which it is not known that they live: they are named, and no report that names them is
// older than the window, or they have said nothing since.
std::set<HostId> LinkWatch::silent_hosts() const {
  std::set<HostId> silent, heard;
  for (const auto& [pair, report] : reports_) {
    if (report.is_judged) continue;
    const bool spoke = report.heard && hosts_.at(pair.second).heard > *report.heard;
    (spoke ? heard : silent).insert(pair.second);
  }
  for (const HostId host : heard) silent.erase(host);
  return silent;
}

void LinkWatch::judge(const std::set<Pair>& pairs) {
  const Writers writers = plans_.writers();  // Before the judgement ends plans.
  std::set<HostId> named;
  for (const Pair& pair : pairs) {
    reports_.at(pair).is_judged = true;
    named.insert(pair.second);
  }
  while (const auto votes = most_named(named, writers)) drop(*votes);
  for (const auto& [a, b] : pairs) {
    // The other end's report of the same link says no more.
    if (!is_there(a) || !is_there(b) || (a > b && pairs.contains({b, a}))) continue;
    runs_.link_broken(a, b, reports_.at({a, b}).why);
  }
}

// The host among `named` that most hosts name and that is to be dropped. Empty: there is none.
std::optional<LinkWatch::Votes> LinkWatch::most_named(const std::set<HostId>& named,
                                                      const Writers& writers) const {
  std::optional<Votes> most;
  for (const HostId host : named) {
    const auto of_host = writers.find(host);
    if (!is_there(host) || of_host == writers.end()) continue;
    Votes votes{.host = host};
    for (const HostId writer : of_host->second) {
      if (!is_there(writer)) continue;
      ++votes.writers;
      if (reports_.contains({writer, host})) votes.by.push_back(writer);
    }
    const bool is_hosts_fault = votes.by.size() >= 2 && 2 * votes.by.size() > votes.writers;
    if (is_hosts_fault && (!most || votes.by.size() > most->by.size())) most = std::move(votes);
  }
  return most;
}

void LinkWatch::drop(const Votes& votes) {
  const std::string name = hosts_.at(votes.host).info.name;
  const HostId by = votes.by[0];
  Error why(ErrorKind::kUnavailable,
            cat(votes.by.size(), " of the ", votes.writers,
                " hosts that write to its memory do not reach it any more, and it drains until "
                "`gangway undrain ",
                name, "`; host \"", hosts_.at(by).info.name,
                "\" says: ", reports_.at({by, votes.host}).why));
  hosts_.set_draining(name, true);
  watch_.lose(votes.host, why);
}

}  // namespace gangway
