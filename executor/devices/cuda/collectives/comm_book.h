// CommBook: the communicators of one device, one for each group of devices, created once and shared
// by all plans over that group; and the collectives that they still have in flight.
//
// When a communicator breaks at one member, the others do not notice: their cards wait inside their
// own. The member that notices it (a launch fails, the driver reports an error, the device is lost)
// aborts its communicator and raises an abort flag in the rendezvous of all collectives that are in
// flight on it. The other members look for abort flags while they wait for their cards, and abort
// too. The works that launched the collectives in flight then fail, each with its own next mark; a
// mark that another work took in between does not report the failure. The next collective of the
// group creates a new communicator. The same happens when a plan with collectives in flight is
// given up (an abort flag about everything).
//
// Invariant: every communicator has a number that all its members know, so an abort flag about an
// old one is not taken for one about its successor.
// Threads: the device's; the destructor after it.
// Ownership: handles are its own; rendezvous are the plans', and outlive collectives in flight.
// Cost: a query (about 1 us) for each collective in flight, only while a mark is waited for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/devices/cuda/driver/card_streams.h"

namespace gangway {

// Its destructor aborts it.
class Comm {
 public:
  Comm(cuda::Driver& driver, cuda::CommHandle handle, uint64_t identity)
      : driver_(driver), handle_(handle), identity_(identity) {}
  ~Comm();
  Comm(const Comm&) = delete;

  cuda::CommHandle handle() const { return handle_; }
  uint64_t identity() const { return identity_; }
  bool broken() const { return broken_; }
  // On a broken communicator: the error that broke it here; null: a peer did.
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
  explicit CommBook(CardStreams& device) : device_(device) {}

  // Null: there is no working one.
  std::shared_ptr<Comm> find(const std::string& group) const;
  void put(const std::string& group, std::shared_ptr<Comm> comm);
  // Drops a communicator that not all members have.
  void drop(const std::string& group);

  // The work that is advanced launched a collective; the device's next mark comes after it. The
  // book releases `rendezvous` when a mark after it is reached.
  void launched(const std::shared_ptr<Comm>& comm, Collective& rendezvous, std::string_view label);
  // Looks for failures and abort flags. Called while a mark is waited for, and when a communicator
  // was found broken.
  void look();
  // Called for each mark, in order, with the work that took it: what failed of the collectives that
  // this work launched before; null: nothing.
  std::shared_ptr<const Error> reached(uint64_t mark, const Work* owner);
  // Aborts all communicators, since the device ends.
  void break_all(const std::shared_ptr<const Error>& why);

 private:
  struct Flight {
    std::shared_ptr<Comm> comm;
    Collective* rendezvous = nullptr;
    const Work* owner = nullptr;
    std::string label;
    uint64_t first = 0, last = 0;  // The marks that come after its launches.
    bool reported = false;
  };

  void look_at(Flight& flight);

  CardStreams& device_;
  std::map<std::string, std::shared_ptr<Comm>, std::less<>> comms_;  // Keys are names of groups.
  std::vector<Flight> flights_;
  // Failures of flights that have ended, until the next mark of the work that launched them.
  std::map<const Work*, std::shared_ptr<const Error>> failures_;
};

}  // namespace gangway
