// Attacker: a client of another owner that speaks the protocol itself, so that it can say what the
// client library never would.
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

// What somebody's program is called, and its things.
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
  // Of a slice, a plan and a state of its own.
  const Names& own() const { return own_; }
  uint64_t new_name() { return (joined_.getId() << 40) + ++last_name_; }
  uint64_t new_call() { return ++last_call_; }

  // What comes back for the message: the ends of its run or copy; empty: nothing.
  std::string told_of(const Message& message);
  // The controller closes the connection for it.
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

// "done: ..." with what came back, else the refusal's kind and text.
std::string outcome_of(const std::function<std::string()>& call);

// A program of one device: y = w + x, and w becomes it.
Program small_program(const std::string& name);

}  // namespace gangway
