// What a client is answered over one of its connections: slices and plans, over RPC.
//
// Threads: the reactor's thread. Calls are fibers.
// Ownership: what is given outlives the calls, and the connection's fibers the capability.
// Errors: those of the controller; kUnavailable over a connection that a later one has replaced.
#pragma once

#include <memory>

#include "controller/service/client_connection.h"
#include "protocol/rpc_values.h"
#include "runtime/net/pacer.h"

namespace gangway {

struct SessionServices {
  Controller& core;
  ClientSessions& sessions;
  std::shared_ptr<ClientConnection> connection;
  Pacer* pacer = nullptr;  // In a simulation: what gives lowering its time.
};

// `attachment`: the number of the connection (client_sessions.h).
wire::Session::Client make_session_server(const SessionServices& services, SessionId id,
                                          uint64_t attachment);

}  // namespace gangway
