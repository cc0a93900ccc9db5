// LinkWatch: decides what ends when hosts that live report that they do not reach one another's
// memory any more.
//
//   first report ── 300 ms ──> judged, with all that was reported meanwhile:
//     a host that at least two others name, and more than name any other, is dropped, and again
//     for what is left; then the runs and executables that use a pair of which one has named the
//     other end, and both hosts stay
//
// A host whose network card fails is named by all its peers and names all of them; it is dropped,
// so that programs lose one host and not every pair of hosts. Two hosts that name each other only
// look alike: none of them is dropped.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: those of the runs that end name both hosts.
// Cost: O(reports) to note one, at most one for each ordered pair of hosts; a judgement is
// O(reports * (plans + runs)).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "controller/scheduler/host_watch.h"

namespace gangway {

class LinkWatch {
 public:
  static constexpr int64_t kWindowMs = 300;

  LinkWatch(HostTable& hosts, HostWatch& watch, RunTable& runs, Logger log)
      : hosts_(hosts), watch_(watch), runs_(runs), log_(std::move(log)) {}

  // A report about a host that is not there, or is lost, is ignored.
  void report(HostId by, const LinkBrokenFrame& broken, int64_t now_ns);
  // Judges what was reported, if it is time. Returns when to look again; empty: nothing waits.
  std::optional<int64_t> tick(int64_t now_ns);

 private:
  void judge();
  void forget_lost();
  std::optional<HostId> most_named() const;
  void drop(HostId host);

  HostTable& hosts_;
  HostWatch& watch_;
  RunTable& runs_;
  const Logger log_;
  // Why, by the host that reports and the peer that it names.
  std::map<std::pair<HostId, HostId>, std::string> reports_;
  int64_t judge_ns_ = 0;  // Time of the judgement, while there are reports.
};

}  // namespace gangway
