// CommBook: the communicators of one device: one for each group of devices, made once, shared by
// all plans over that group, and what they still have in flight.
//
// A communicator that breaks says so to nobody: its peers' cards wait inside theirs. So who finds
// that it broke (a launch that fails, the driver's answer, a device that is lost) aborts its own
// and raises an alarm in the meetings of all collectives that have something in flight there; who
// waits for its card looks for alarms, and aborts too. What was in flight then fails with the mark
// that comes after it. The next collective of the group makes the communicator anew.
//
// Invariant: a communicator is known by a number that all its members know, so an alarm about one
// that is gone means nothing to the next.
// Threads: the device's; the destructor after it.
// Ownership: handles are its own; meetings are the plans', and outlive what they have in flight.
// Cost: a query (about 1 us) for each collective in flight, only while a mark is waited for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/devices/cuda/driver/driver.h"

namespace gangway {

class CudaDevice;

// Breaks when it dies.
class Comm {
 public:
  Comm(cuda::Driver& driver, cuda::CommHandle handle, uint64_t identity)
      : driver_(driver), handle_(handle), identity_(identity) {}
  ~Comm();
  Comm(const Comm&) = delete;

  cuda::CommHandle handle() const { return handle_; }
  uint64_t identity() const { return identity_; }
  bool broken() const { return broken_; }
  // Of a broken one: what broke it here; null: a peer did.
  const std::shared_ptr<const Error>& why() const { return why_; }
  void abort(std::shared_ptr<const Error> why);

 private:
  cuda::Driver& driver_;
  const cuda::CommHandle handle_;
  const uint64_t identity_;
  bool broken_ = false;
  std::shared_ptr<const Error> why_;
};

class CommBook {
 public:
  explicit CommBook(CudaDevice& device) : device_(device) {}

  // Null: there is none that works.
  std::shared_ptr<Comm> find(const std::string& group) const;
  void put(const std::string& group, std::shared_ptr<Comm> comm);
  // Its members do not agree on it.
  void drop(const std::string& group);

  // A collective was launched; the next mark, `mark`, comes after it. It lets go of `meeting` when
  // that mark is reached.
  void launched(const std::shared_ptr<Comm>& comm, Collective& meeting, std::string_view label,
                uint64_t mark);
  // A mark is waited for, or a communicator was found broken.
  void look();
  // What failed of what was launched before it; null: nothing.
  std::shared_ptr<const Error> reached(uint64_t mark);
  // The device ends, so all of them do.
  void break_all(const std::shared_ptr<const Error>& why);

 private:
  struct Flight {
    std::shared_ptr<Comm> comm;
    Collective* meeting = nullptr;
    std::string label;
    uint64_t first = 0, last = 0;  // The marks that come after its launches.
    bool told = false;
  };

  void look_at(Flight& flight);

  CudaDevice& device_;
  std::map<std::string, std::shared_ptr<Comm>, std::less<>> comms_;  // By group.
  std::vector<Flight> flights_;
};

}  // namespace gangway
