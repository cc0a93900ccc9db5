// Network: byte streams between processes, over sockets or (runtime/net/sim_network.h) in memory.
//
// Addresses:
//
//   "unix:/run/user/1000/gangway.sock"               private to its user
//   "unix:@name"                                     the same, without a file
//   "127.0.0.1:7040", "localhost:0", "[::1]:7040"    port 0 picks a free one
//   "sim:controller"                                 in-memory networks only
//
// Users: for a Unix socket, a listener gets from the system the user at the other end. For a TCP
// connection, the user is not known. Trust: listening anywhere but on loopback or a Unix socket is
// refused, since connections are not encrypted.
// Threads: the reactor's thread. connect() suspends; on_connection is called in a fiber of its own.
// Ownership: a listener listens until it is destroyed; the streams that it handed out live on.
// Errors: listen(): kInvalid for a bad or non-loopback address and for a port in use; connect():
// kUnavailable when nobody answered within the time limit. A refused connection is tried again
// until then, so that processes may start in any order.
//
// Example:
//   SocketNetwork network(reactor);
//   auto listener = network.listen("127.0.0.1:0", [](Incoming in) { serve(std::move(in)); });
//   Stream stream = network.connect(listener->address());
#pragma once

#include <kj/async-io.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/fibers/clock.h"
#include "runtime/fibers/reactor.h"
#include "runtime/net/access_token.h"

namespace gangway {

using Stream = kj::Own<kj::AsyncIoStream>;

// A connection that a peer opened.
struct Incoming {
  Stream stream;
  std::string user;  // User who opened it; empty: not known.
  std::string from;  // Address of the peer, for messages.
};
using OnConnection = std::function<void(Incoming)>;
// Called once when no connection can be accepted because this process has no file descriptor or
// memory left for it, and again only after one was accepted. Waiting connections are accepted once
// there is room.
using OnTrouble = std::function<void(const Error&)>;

class Listener {
 public:
  virtual ~Listener() = default;
  // The address in the form that connect() takes, with the port that was picked.
  virtual const std::string& address() const = 0;
};

struct DialOptions {
  Duration time_limit = std::chrono::seconds(10);
  // Returns the token to show to a server (server.h) that doesn't know its peers by the network.
  // Called once the connection is open. Null: no token.
  std::function<ShownToken()> token;
};

class Network {
 public:
  virtual ~Network() = default;
  virtual std::unique_ptr<Listener> listen(const std::string& address, OnConnection on_connection,
                                           OnTrouble on_trouble = {}) = 0;
  // Suspends.
  virtual Stream connect(const std::string& address, DialOptions options = {}) = 0;
};

// Unix sockets and TCP, on a real reactor.
class SocketNetwork final : public Network {
 public:
  explicit SocketNetwork(Reactor& reactor) : reactor_(reactor) {}
  std::unique_ptr<Listener> listen(const std::string& address, OnConnection on_connection,
                                   OnTrouble on_trouble = {}) override;
  Stream connect(const std::string& address, DialOptions options = {}) override;

 private:
  Reactor& reactor_;
};

namespace internal {

// Waits for `promise`, at most until `deadline_ns`: then throws kUnavailable with `what`.
Stream await_connection(Reactor& reactor, kj::Promise<Stream> promise, int64_t deadline_ns,
                        const std::string& what);

}  // namespace internal
}  // namespace gangway
