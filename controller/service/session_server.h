// Serves the RPC calls of a client's session (slices, plans) over one of its connections.
//
// Threads: the reactor's thread. Calls are fibers.
// Ownership: the objects in `services` outlive the calls; the connection's fibers, the capability.
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
  Pacer* pacer = nullptr;  // In a simulation, gives lowering its time.
};

// `attachment`: the number of the connection (client_sessions.h).
wire::Session::Client make_session_server(const SessionServices& services, SessionId id,
                                          uint64_t attachment);

}  // namespace gangway
