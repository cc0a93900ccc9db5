#include "executor/devices/cuda/collectives/comm_book.h"

#include <algorithm>

#include "executor/devices/device_stream.h"

namespace gangway {

Comm::~Comm() {
  // destroy() without abort() would wait for the peers.
  abort(nullptr);
  driver_.destroy(handle_);
}

void Comm::abort(std::shared_ptr<const Error> why) {
  if (std::exchange(broken_, true)) return;
  why_ = std::move(why);
  static_cast<void>(driver_.abort(handle_));
}

std::shared_ptr<Comm> CommBook::find(const std::string& group) const {
  const auto found = comms_.find(group);
  return found == comms_.end() || found->second->broken() ? nullptr : found->second;
}

void CommBook::put(const std::string& group, std::shared_ptr<Comm> comm) {
  comms_[group] = std::move(comm);
}

void CommBook::drop(const std::string& group) {
  const auto found = comms_.find(group);
  if (found == comms_.end()) return;
  found->second->abort(nullptr);
  comms_.erase(found);
  look();
}

void CommBook::launched(const std::shared_ptr<Comm>& comm, Collective& rendezvous,
                        std::string_view label) {
  const uint64_t mark = device_.next_mark();
  const Work* const owner = device_.owner();
  for (Flight& flight : flights_) {
    if (flight.comm != comm || flight.rendezvous != &rendezvous || flight.owner != owner) continue;
    flight.label = label;
    flight.last = mark;
    return;
  }
  flights_.push_back({comm, &rendezvous, owner, std::string(label), mark, mark});
}

namespace {

// Error for the other programs whose collectives are in flight on the communicator. The controller
// reports the reason to the runs of the plan itself.
std::shared_ptr<const Error> given_up(const std::string& label) {
  return std::make_shared<const Error>(
      ErrorKind::kUnavailable,
      "communicator: it was aborted, since a program that shares it was given up",
      Where{.node = label}, "run again");
}

}  // namespace

void CommBook::look_at(Flight& flight) {
  Comm& comm = *flight.comm;
  if (!comm.broken()) {
    cuda::Status status = device_.gpu().driver().query(comm.handle());
    if (status.failed()) {
      status.text = cat(flight.label, ": ", status.text);
      auto error = device_.failure_of(status);
      if (status.sticky) return;  // The device has ended, and everything here.
      comm.abort(std::move(error));
    } else if (flight.rendezvous->abort_raised(Collective::kEverything)) {
      comm.abort(given_up(flight.label));
    } else if (flight.rendezvous->abort_raised(comm.identity())) {
      comm.abort(nullptr);
    }
  }
  if (comm.broken() && !std::exchange(flight.reported, true))
    flight.rendezvous->raise_abort(comm.identity());
}

void CommBook::look() {
  for (size_t i = 0; i < flights_.size(); ++i) look_at(flights_[i]);
}

// Whether a flight failed is known at the first mark after it, whoever took that: its communicator
// may break later, by another flight.
std::shared_ptr<const Error> CommBook::reached(uint64_t mark, const Work* owner) {
  for (Flight& flight : flights_) {
    if (flight.first > mark) continue;
    flight.first = mark + 1;
    // A collective that the card has finished, on a communicator that was not aborted, succeeded.
    if (!flight.comm->broken()) continue;
    look_at(flight);
    std::shared_ptr<const Error>& failure = failures_[flight.owner];
    if (failure == nullptr || failure == peer_failed())
      failure = flight.comm->why() == nullptr ? peer_failed() : flight.comm->why();
  }
  std::erase_if(flights_, [mark](const Flight& flight) { return flight.last <= mark; });
  auto taken = failures_.extract(owner);
  return taken.empty() ? nullptr : std::move(taken.mapped());
}

void CommBook::break_all(const std::shared_ptr<const Error>& why) {
  for (const auto& [group, comm] : comms_) comm->abort(why);
  for (Flight& flight : flights_) {
    flight.comm->abort(why);
    look_at(flight);
  }
  flights_.clear();
  failures_.clear();
  comms_.clear();
}

}  // namespace gangway
