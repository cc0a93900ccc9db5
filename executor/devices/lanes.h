// LaneQueue: what one device does: the runs of several programs, piece by piece, by ticket.
//
// Each rank of an installed plan that the device runs has a lane on it. The works of a lane follow
// one another, since they share the rank's memory. Among lanes the lowest ticket goes first; a lane
// that waits, for a peer or for its next ticket, is passed over, and tried again after each piece
// of another one. Works without a lane (initialisers, copies to and from clients) wait for no other
// work of this kind.
//
// Three things keep the order of tickets even where the lower one waits:
//  - works that share a state: what has the higher ticket sees what the lower one left there;
//  - works of different plans that lie over one another (Work::region()): each has its tickets
//    whole, so that what has the higher one begins when the lower one has ended;
//  - on a device whose collectives hold it (Device::collectives_hold()), a collective begins only
//    when all with lower tickets has been done, or launched. Otherwise that would wait behind the
//    collective, whose other members may wait for it: two devices that begin two collectives in
//    opposite orders wait for each other for ever, and so do a collective and what its peers need.
//
// The ranks that a device runs of one plan have the same tickets there. Neither comes before the
// other: they take turns piece by piece, and where a collective holds the device all ranks of its
// ticket go on, since each may be a member that the others wait for.
//
// A queue has no thread. Its device advances it: a CPU device on a thread of its own, which parks
// when no work can go on; a simulated one inline on the reactor. So the same work runs on both.
//
// Threads: push() anywhere; advance() and brief_ns() by one thread at a time, the device's or that
// which serves the device for it. Nothing throws on it.
// Ownership: a lane outlives the works that were pushed to it; of a work: work/work.h.
// Cost: push 10-20 ns; a piece costs 20 ns and as much again for each lane that waits. Nothing is
// allocated once as many lanes were busy before.
#pragma once

#include <atomic>
#include <vector>

#include "executor/work/work.h"

namespace gangway {

class Device;

// The works of one rank of a plan on one device.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

 private:
  friend class LaneQueue;
  Work* first_ = nullptr;  // The device's thread's: oldest first.
  Work* last_ = nullptr;
};

class LaneQueue {
 public:
  LaneQueue() = default;
  ~LaneQueue() { drop(); }
  LaneQueue(const LaneQueue&) = delete;

  // Without a lane: a task.
  void push(Work& work, Lane* lane = nullptr);
  // Runs what can run. kPending: a work waits for a ring or for turn.wake_at_ns; kDone: nothing is
  // left.
  Progress advance(Turn& turn);
  // What all works that are there take together by the cost model, where none of them needs others;
  // kNever: one does, or it is more than `limit_ns`.
  int64_t brief_ns(int64_t limit_ns);
  // Retires the works that are left as not done. Called once the device's thread has ended.
  void drop();

 private:
  // The work that a lane, or a task, would go on with.
  struct Candidate {
    uint64_t ticket = 0;
    size_t place = 0;  // Among those of one ticket: tasks, in the order in which they came.
    Work* work = nullptr;
    Lane* lane = nullptr;
  };

  bool take_incoming();
  bool advance_one(Turn& turn);
  bool advance_held(Turn& turn);
  bool advance_beside(Turn& turn);
  Progress advance(const Candidate& candidate, Turn& turn);
  void find_candidates();
  bool missed_candidates() const;
  bool may_go_on(const Candidate& candidate, const Device& device) const;
  void end(const Candidate& candidate, Turn& turn);
  void settle(Turn& turn);

  std::atomic<Work*> incoming_{nullptr};  // Newest first.
  std::vector<Lane*> lanes_;              // Those with works.
  std::vector<Work*> tasks_;              // Oldest first.
  std::vector<Candidate> candidates_;     // Ascending by ticket.
  size_t passed_over_ = 0;                // So many of them wait.
  // Set: this work waits and keeps the device; only what its Hold allows is advanced.
  Candidate holder_;
  Work* settling_ = nullptr;  // Done, but for what they started: oldest first.
  Work* settling_last_ = nullptr;
};

}  // namespace gangway
