// DeviceSchedule: the schedule of one device: the runs of several programs, piece by piece, by
// ticket.
//
// Each rank of an installed plan that the device runs has a stream on it. The works of a rank's
// stream follow one another, since they share the rank's memory. Among streams the lowest ticket
// goes first; a rank's stream that waits, for a peer or for its next ticket, is passed over, and
// tried again after each piece of another one. Works without a rank's stream (initialisers, copies
// to and from clients) wait for no other work of this kind.
//
// Three rules keep the order of tickets even if the work with the lower ticket waits:
//  - works that share a state: the higher ticket sees the state that the lower one left;
//  - works of different plans that share memory (Work::region()): each gets all its tickets at
//    once, so the one with the higher ticket begins when the lower one has ended;
//  - on a device whose collectives block it (DeviceStream::collectives_block()), a collective
//    begins only when all work with lower tickets has been done, or launched. Otherwise that work
//    would wait behind the collective, whose other members may wait for it: two devices that begin
//    two collectives in opposite orders wait for each other for ever, and so do a collective and
//    work that its peers need.
//
// The ranks that a device runs of one plan have the same tickets there. Neither comes before the
// other: they take turns piece by piece, and if a collective blocks the device all ranks of its
// ticket go on, since each may be a member that the others wait for.
//
// A schedule has no thread. Its device advances it: a CPU device on a thread of its own, which
// parks when no work can go on; a simulated one inline on the reactor. The same work therefore runs
// on both.
//
// Threads: push() anywhere; advance() and brief_ns() by one thread at a time: the device's or the
// one that serves the device for it. They do not throw.
// Ownership: a rank's stream outlives the works that were pushed to it; works: see work/work.h.
// Cost: push 10-20 ns; a piece costs 20 ns, and 20 ns for each rank's stream that waits. It
// allocates nothing once as many streams were busy before.
#pragma once

#include <atomic>
#include <vector>

#include "executor/work/work.h"

namespace gangway {

class DeviceStream;

// The works of one rank of a plan on one device.
class RankStream {
 public:
  RankStream() = default;
  RankStream(const RankStream&) = delete;
  RankStream& operator=(const RankStream&) = delete;

 private:
  friend class DeviceSchedule;
  Work* first_ = nullptr;  // The device's thread's: oldest first.
  Work* last_ = nullptr;
};

class DeviceSchedule {
 public:
  DeviceSchedule() = default;
  ~DeviceSchedule() { drop(); }
  DeviceSchedule(const DeviceSchedule&) = delete;

  // Pushes a work to a rank's stream, or, without one, as a task.
  void push(Work& work, RankStream* rank_stream = nullptr);
  // Runs the works that can run. kPending: a work waits for a ring or for turn.wake_at_ns; kDone:
  // none is left.
  Progress advance(Turn& turn);
  // Time that all queued works take together by the cost model, if none of them needs others;
  // kNever: one does, or the time is more than `limit_ns`.
  int64_t brief_ns(int64_t limit_ns);
  // Retires the works that are left as not done. Called once the device's thread has ended.
  void drop();

 private:
  // The work that is next in a rank's stream, or a task.
  struct Candidate {
    uint64_t ticket = 0;
    size_t place = 0;  // Order among equal tickets: for tasks, that in which they were pushed.
    Work* work = nullptr;
    RankStream* rank_stream = nullptr;
  };

  bool take_incoming();
  bool advance_one(Turn& turn);
  bool advance_blocked(Turn& turn);
  bool advance_others(Turn& turn);
  Progress advance(const Candidate& candidate, Turn& turn);
  void find_candidates();
  bool missed_candidates() const;
  bool may_go_on(const Candidate& candidate, const DeviceStream& stream) const;
  void end(const Candidate& candidate, Turn& turn);
  void settle(Turn& turn);

  std::atomic<Work*> incoming_{nullptr};  // Newest first.
  std::vector<RankStream*> streams_;      // Streams that have works.
  std::vector<Work*> tasks_;              // Oldest first.
  std::vector<Candidate> candidates_;     // Ascending by ticket.
  size_t passed_over_ = 0;                // Number of candidates that wait.
  // If set, this work waits and blocks the device; only works that it does not block are advanced.
  Candidate holder_;
  Work* settling_ = nullptr;  // Works that are done, except for what they started: oldest first.
  Work* settling_last_ = nullptr;
};

}  // namespace gangway
