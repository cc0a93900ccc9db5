// LinkWatch: decides what ends when hosts that live report that they do not reach one another's
// memory any more.
//
//   report ── 300 ms, and then the named host speaks ──> judged, with all that can be judged:
//     a host that at least two others name, and more than half of the hosts that write to it, is
//     dropped and drained, the one that most name first; then the runs and executables that use a
//     reported pair that is left end, and both hosts stay
//
// A host that is named may have vanished. The reports of it wait until it speaks, which each host
// does once a second, or is lost: programs that keep checkpoints survive a lost host, and would not
// survive executables that are given up. Its messages within the 300 ms may have been under way.
//
// A host whose network card fails is named by all its peers and names all of them; it is dropped,
// so that programs lose one host and not every pair of hosts. It registers again at once, so it
// drains until somebody undrains it: its next programs would fail, too. Two hosts that name each
// other only look alike: none of them is dropped. A report that was judged still counts for ten
// seconds, since hosts find out at different times.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: those of the runs that end name both hosts.
// Cost: O(plans + hosts) to note a report; at most one is kept for each ordered pair of hosts. A
// tick is O(reports); a judgement O((reports + links) * log hosts), and for each pair, and again
// for each plan that ends, O(hosts of all plans + runs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/scheduler/host_watch.h"

namespace gangway {

class LinkWatch {
 public:
  static constexpr int64_t kWindowMs = 300;
  static constexpr int64_t kLookMs = 100;       // Pause between two looks for hosts that speak.
  static constexpr int64_t kCountsMs = 10'000;  // A report counts for so long.

  LinkWatch(HostTable& hosts, PlanTable& plans, HostWatch& watch, RunTable& runs, Logger log)
      : hosts_(hosts), plans_(plans), watch_(watch), runs_(runs), log_(std::move(log)) {}

  // Whether the report is new: then tick() has to be called. A report that does not belong to a
  // plan on hosts, in which the one writes to the other, or whose peer is lost, is ignored.
  bool report(HostId by, const LinkBrokenFrame& broken, int64_t now_ns);
  // Judges what was reported, if it is time. Returns when to look again; empty: nothing waits.
  std::optional<int64_t> tick(int64_t now_ns);

 private:
  using Pair = std::pair<HostId, HostId>;  // The host that reports, and the peer that it names.
  struct Report {
    std::string why;
    int64_t at_ns = 0;
    std::optional<uint64_t> heard = {};  // HostRecord::heard of the peer, 300 ms later.
    bool is_judged = false;
  };

  using Writers = std::map<HostId, std::set<HostId>>;  // See PlanTable::writers().
  // Which hosts name a host, and how many write to it.
  struct Votes {
    HostId host;
    std::vector<HostId> by = {};
    size_t writers = 0;
  };

  bool is_there(HostId id) const;
  void forget(int64_t now_ns);
  std::set<HostId> silent_hosts() const;
  void judge(const std::set<Pair>& pairs);
  std::optional<Votes> most_named(const std::set<HostId>& named, const Writers& writers) const;
  void drop(const Votes& votes);

  HostTable& hosts_;
  PlanTable& plans_;
  HostWatch& watch_;
  RunTable& runs_;
  const Logger log_;
  std::map<Pair, Report> reports_;
};

}  // namespace gangway
