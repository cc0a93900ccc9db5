// Attacker: a client of another owner that speaks the protocol itself, so that it can send messages
// that the client library never sends.
//
// Threads: the reactor's; all but the constructor's arguments suspends.
// Ownership: the cluster outlives it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protocol/frames.h"
#include "protocol/rpc_values.h"
#include "runtime/net/server.h"
#include "sim/sim_cluster.h"

namespace gangway {

// Names and ids of a program and of its resources.
struct Names {
  std::string owner, program, host;
  uint64_t session = 0, slice = 0, plan = 0, run = 0, array = 0, call = 0;
};

class Attacker {
 public:
  static constexpr char kOwner[] = "eve";

  Attacker(Reactor& reactor, SimCluster& cluster);

  wire::Controller::Client controller() { return connection_.bootstrap<wire::Controller>(); }
  wire::Session::Client session() { return joined_.getSession(); }
  // The attacker's own slice, plan and state.
  const Names& own() const { return own_; }
  uint64_t new_name() { return (joined_.getId() << 40) + ++last_name_; }
  uint64_t new_call() { return ++last_call_; }

  // Sends the message and returns the reports that it causes: the ends of its run or copy; empty if
  // there are none.
  std::string told_of(const Message& message);
  // True if the controller closes the connection because of the message.
  bool is_closed_for(const Message& message);

 private:
  void make_own_things();

  Connection connection_;
  capnp::Response<wire::Controller::ConnectResults> joined_;
  Names own_;
  uint64_t last_name_ = 0, last_call_ = 0, last_request_ = 0;
  std::vector<std::string> told_;
  bool fence_came_ = false;
  WaitQueue changed_;
  std::unique_ptr<FrameStream> frames_;
};

// Returns "done: ..." with the answer, else the refusal's kind and text.
std::string outcome_of(const std::function<std::string()>& call);

// A program of one device: y = w + x, and w becomes y.
Program small_program(const std::string& name);

}  // namespace gangway
