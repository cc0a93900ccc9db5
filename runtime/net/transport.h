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
// connection, the peer's certificate says who it is, or without TLS nobody knows.
// Trust: a SocketNetwork with a folder of certificates (runtime/tls/tls_files.h) makes all its TCP
// connections encrypted, on loopback too. Without one, listening or connecting anywhere but on
// loopback or a Unix socket is refused.
// Threads: the reactor's thread. connect() suspends; on_connection is called in a fiber of its own.
// Ownership: a listener listens until it is destroyed; the streams that it handed out live on.
// Errors: listen(): kInvalid for a bad address, for one that other machines reach where there is no
// TLS, and for a port in use; connect(): kUnavailable when nobody answered within the time limit,
// kInvalid where a certificate is not taken. A refused connection is tried again until the time
// limit, so that processes may start in any order.
//
// Example:
//   SocketNetwork network(reactor);
//   auto listener = network.listen("127.0.0.1:0", [](Incoming in) { serve(std::move(in)); });
//   Stream stream = network.connect(listener->address());
#pragma once

#include <kj/async-io.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/fibers/clock.h"
#include "runtime/fibers/reactor.h"
#include "runtime/net/access_token.h"
#include "runtime/tls/tls.h"

namespace gangway {

using Stream = kj::Own<kj::AsyncIoStream>;

// A connection that a peer opened.
struct Incoming {
  Stream stream;
  std::string user;                             // User who opened it; empty: not known.
  std::string from;                             // Address of the peer, for messages.
  std::optional<Certificate> certificate = {};  // The peer's, where it has shown one.
  // The peer does not speak TLS, and the listener does. It may only be told so.
  bool is_plain = false;
};
using OnConnection = std::function<void(Incoming)>;
// Called once when no connection can be accepted because this process has no file descriptor or
// memory left for it, and again only after one was accepted. Waiting connections are accepted once
// there is room.
using OnTrouble = std::function<void(const Error&)>;

struct ListenOptions {
  OnTrouble on_trouble = {};
  // Called for each connection whose TLS handshake ended in a refusal, from either side.
  std::function<void(const std::string& from, const std::string& why)> on_refused = {};
  // kAny: peers need no certificate, as browsers have none.
  Tls::Clients clients = Tls::Clients::kCertified;
};

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
                                           ListenOptions options = {}) = 0;
  // Suspends.
  virtual Stream connect(const std::string& address, DialOptions options = {}) = 0;
  // Whether connections to and at this address are encrypted, by TLS. No token is shown there.
  virtual bool encrypts(const std::string& /*address*/) const { return false; }
  // The certificate of this process; none: it has none, or has not needed it yet.
  virtual std::optional<Certificate> certificate() const { return std::nullopt; }
};

// Unix sockets and TCP, on a real reactor. Files of `folder` are first read when a TCP address
// is used; empty: no TLS. `on_unread`: see Tls.
class SocketNetwork final : public Network {
 public:
  explicit SocketNetwork(Reactor& reactor, std::string folder = {}, OnTrouble on_unread = {})
      : reactor_(reactor), tls_folder_(std::move(folder)), on_unread_(std::move(on_unread)) {}
  std::unique_ptr<Listener> listen(const std::string& address, OnConnection on_connection,
                                   ListenOptions options = {}) override;
  Stream connect(const std::string& address, DialOptions options = {}) override;
  bool encrypts(const std::string& address) const override;
  std::optional<Certificate> certificate() const override {
    return tls_ == nullptr ? std::nullopt : std::optional(tls_->own());
  }

 private:
  const std::shared_ptr<Tls>& tls();

  Reactor& reactor_;
  const std::string tls_folder_;
  const OnTrouble on_unread_;
  std::shared_ptr<Tls> tls_;
};

namespace internal {

// Bound on TLS handshakes under way with one IP address, a quarter of those with all of them:
// strangers at one address, who stay silent, keep no others out. An IPv6 machine may have many.
inline constexpr size_t kHandshakesOfMachineMax = 64;

// Waits for `promise`, at most until `deadline_ns`: then throws kUnavailable with `what`.
Stream await_connection(Reactor& reactor, kj::Promise<Stream> promise, int64_t deadline_ns,
                        const std::string& what);

}  // namespace internal
}  // namespace gangway
