// ProgramClient: the client of a program, its credits, and the numbers that it has used.
//
// A client may have a bounded number of runs, and of host transfers, whose end it has not been
// told. A program may have one client after another, and none between them. All of them count
// their names and requests upwards in one range, which tells the runs and transfers of an earlier
// client from those of the present one: they count against nobody's credits, and their ends are
// reported to nobody.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: the peer is borrowed, until detach() or the end of the program.
// Errors: none.
// Cost: O(outputs) a run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "controller/hosts/peers.h"
#include "protocol/frames.h"
#include "protocol/messages.h"

namespace gangway {

class ProgramClient {
 public:
  explicit ProgramClient(ClientPeer& peer) : peer_(&peer) {}
  ProgramClient(const ProgramClient&) = delete;

  bool is_there() const { return peer_ != nullptr; }
  void attach(ClientPeer& peer) { peer_ = &peer; }
  // The client has gone, and with it the credits that it used.
  void detach();
  // Does nothing while there is no client.
  void send(const Message& message) {
    if (peer_ != nullptr) peer_->send(encode(message));
  }

  // The client has sent a run, or a host transfer.
  void begin_run() { ++runs_; }
  void begin_transfer(const HostTransferFrame& transfer);
  // False: it was begun for an earlier client.
  bool end_run(RunId run);
  bool end_transfer(uint64_t request);
  // Runs and host transfers of the client that have not ended.
  uint64_t runs() const { return runs_; }
  uint64_t transfers() const { return transfers_; }

  // Counts a name that the client has used, or those of a run with its outputs.
  void note_name(uint64_t name) { last_name_ = std::max(last_name_, name); }
  void note_names(const RunFrame& run);
  // The highest numbers that the program's clients have used.
  uint64_t last_name() const { return last_name_; }
  uint64_t last_request() const { return last_request_; }

 private:
  ClientPeer* peer_;  // Null: there is no client.
  uint64_t runs_ = 0, transfers_ = 0;
  uint64_t last_name_ = 0, last_request_ = 0;
  // The highest numbers that earlier clients have used.
  uint64_t before_name_ = 0, before_request_ = 0;
};

}  // namespace gangway
