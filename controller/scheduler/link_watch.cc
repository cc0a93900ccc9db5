#include "controller/scheduler/link_watch.h"

#include <algorithm>

namespace gangway {
namespace {

constexpr int64_t kWindowNs = LinkWatch::kWindowMs * 1'000'000;

}  // namespace

void LinkWatch::report(HostId by, const LinkBrokenFrame& broken, int64_t now_ns) {
  const auto& all = hosts_.all();
  const auto named = std::ranges::find_if(all, [&](const auto& entry) {
    return !entry.second.lost && entry.second.info.name == broken.peer;
  });
  if (named == all.end() || named->first == by) return;
  log_.warn("link between hosts is broken",
            {{"host", hosts_.at(by).info.name}, {"peer", broken.peer}, {"why", broken.why}});
  if (reports_.empty()) judge_ns_ = now_ns + kWindowNs;
  reports_.try_emplace({by, named->first}, broken.why);
}

std::optional<int64_t> LinkWatch::tick(int64_t now_ns) {
  if (reports_.empty()) return std::nullopt;
  if (now_ns < judge_ns_) return judge_ns_;
  judge();
  return std::nullopt;
}

void LinkWatch::judge() {
  forget_lost();
  for (auto host = most_named(); host; host = most_named()) {
    drop(*host);
    forget_lost();
  }
  const auto pairs = std::exchange(reports_, {});
  for (const auto& [pair, why] : pairs) {
    // The other end's report of the same link says no more.
    if (pair.first > pair.second && pairs.contains({pair.second, pair.first})) continue;
    runs_.link_broken(pair.first, pair.second, why);
  }
}

void LinkWatch::forget_lost() {
  const auto is_lost = [this](HostId id) {
    const HostRecord* const host = hosts_.find(id);
    return host == nullptr || host->lost;
  };
  std::erase_if(reports_, [&](const auto& report) {
    return is_lost(report.first.first) || is_lost(report.first.second);
  });
}

// The host that most others name: at least two, and more than name the next. Empty: there is none.
std::optional<HostId> LinkWatch::most_named() const {
  std::map<HostId, int> named_by;
  for (const auto& [pair, why] : reports_) ++named_by[pair.second];
  std::optional<HostId> most;
  int times = 1;
  for (const auto& [host, count] : named_by) {
    if (count < times || count < 2) continue;
    most = count > times ? std::optional(host) : std::nullopt;
    times = count;
  }
  return most;
}

void LinkWatch::drop(HostId host) {
  int count = 0;
  std::string why;
  for (const auto& [pair, reason] : reports_) {
    if (pair.second != host) continue;
    ++count;
    why = cat("host \"", hosts_.at(pair.first).info.name, "\" says: ", reason);
  }
  watch_.lose(host, Error(ErrorKind::kUnavailable,
                          cat(count, " hosts do not reach its memory any more; ", why)));
}

}  // namespace gangway
