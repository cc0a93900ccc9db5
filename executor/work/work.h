// Work: one piece of what a device does, a state machine that never blocks. Turn: one attempt to
// advance it.
//
// Threads: advance() and settled() run on one thread at a time: the device's, or the one that
// serves the device in its place (DeviceStream::serve_or_ring()). They do not throw.
// Life of a work: pushed -> advanced until it is done -> on a discrete device: the queue awaits
// what it started, while the works behind it advance -> settled -> retired.
// Ownership: a work stays its owner's until its queue (devices/device_schedule.h) calls retire(),
// exactly once: after it is settled, or with `done == false` when the queue is dropped first.
// retire() may delete it, or push it again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "runtime/base/error.h"

namespace gangway {

class DeviceStream;
class RankStream;
class Work;

enum class Progress : uint8_t {
  kDone,
  kPending,  // It waits.
  kMore,     // It could go on, but others may come first.
};

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
inline constexpr uint64_t kNoTicket = std::numeric_limits<uint64_t>::max();
// Work that takes no longer than this, by the cost model, ends sooner than another thread can be
// woken for it.
inline constexpr int64_t kBriefNs = 10'000;
// Work that takes longer than this is worth a wake-up of its own.
inline constexpr int64_t kShortNs = 50'000;

// One attempt to advance. A work that returns kPending is advanced again when the device is rung,
// or at `wake_at_ns`.
struct Turn {
  DeviceStream& stream;
  int64_t now_ns = 0;  // When the turn began, or the last work ended in it.
  int64_t wake_at_ns = kNever;
  bool may_spin = false;  // The device's wait policy spins.
  // A work with pieces returns kMore before a piece whose ticket is not below this, and when
  // another work has come.
  uint64_t until_ticket = kNoTicket;
  const std::atomic<Work*>* incoming = nullptr;
  // For a real device whose last act in this turn was to end a `timed` step: when the step ended,
  // which may be before the device's thread woke. 0: there is no such step.
  int64_t timed_until_ns = 0;
  bool alone = false;  // There is no other work, except what is incoming.

  void wake_by(int64_t time_ns) { wake_at_ns = std::min(wake_at_ns, time_ns); }
  // Whether `word` has reached `value`; if the policy is to spin, waits up to a microsecond for it.
  // An answer of another device that comes so soon is read from its cache line, which costs less
  // than half of a ring and a new turn.
  bool comes(const std::atomic<uint64_t>& word, uint64_t value) const;
  // Whether a work goes back to the queue before a piece with this ticket.
  bool over_before(uint64_t ticket) const {
    return ticket >= until_ticket ||
           (incoming != nullptr && incoming->load(std::memory_order_relaxed) != nullptr);
  }
};

// How a piece that has begun blocks its device.
enum class Blocks : uint8_t {
  kNothing,
  kOthers,  // A collective waits for its members: only works of its ticket, which are the other
            // ranks that the device runs of it, may advance.
  kAll,     // No other work may advance: the piece takes its time.
};

class Work {
 public:
  virtual ~Work() = default;
  virtual Progress advance(Turn& turn) = 0;
  // The queue calls this when all that the work started on the device is done; or has failed, since
  // the work last took a mark.
  virtual void settled(Turn& turn, const std::shared_ptr<const Error>& failure) {
    static_cast<void>(turn);
    static_cast<void>(failure);
  }
  virtual void retire(bool done) = 0;

  // The device's thread calls the following between two calls of advance().
  // Ticket of its next piece. 0: before all others; kNoTicket: it has none yet.
  virtual uint64_t ticket() const { return 0; }
  // Whether its next piece may block the device until other devices come (a collective, a gate).
  virtual bool meets_others() const { return false; }
  // How its piece under way blocks the device until the piece ends.
  virtual Blocks blocks() const { return Blocks::kNothing; }
  // States and arrays that it shares with other works, which use them in the order of tickets;
  // ascending.
  virtual std::span<const void* const> states() const { return {}; }
  // Memory that it has to itself from its first piece to its last: works with higher tickets that
  // want the same memory wait until it has ended. Null: none.
  virtual const void* region() const { return nullptr; }
  // The following never change. The time that it keeps its device busy, by the cost model; kNever:
  // longer than kShortNs, or not known, as for users' kernels.
  virtual int64_t modelled_ns() const { return kNever; }
  // Whether it may wait for anything but this host's reactor.
  virtual bool needs_others() const { return true; }

 private:
  friend class DeviceSchedule;
  Work* next_ = nullptr;
  RankStream* rank_stream_ = nullptr;
  uint64_t mark_ = 0;  // Once it is done: the mark behind the work that it started.
};

}  // namespace gangway
