// Server and Connection: Cap'n Proto RPC and frames between two processes, through one address.
//
// A connection begins with a preamble that says what it is, so that one port serves both kinds and
// a peer of another wire version is told so instead of being misread:
//
//   client -> server, 16 bytes: "GWAY" | u8 version | u8 kind (0 RPC, 1 frames) | u16 0 | u64 token
//   server -> client,   8 bytes: "GWAY" | u8 version | u8 status (0 fine) | u16 0
//
// A frame stream outlives its connection (frames.h): its peer connects again with the same token.
//
// Threads: the reactor's thread; connecting suspends, bootstrap() is called in a fiber. Destroying
// suspends briefly.
// Ownership: a Server owns its RPC connections; destroying it drops them. A Connection's
// capabilities outlive it but fail with kUnavailable.
// Errors: kUnavailable when nobody answers, kInvalid when the peer is not a Gangway of this wire
// version.
// Cost: a call 25-40 us between processes, 7 us in memory.
//
// Example:
//   Server server(reactor, network, "127.0.0.1:0",
//                 {.bootstrap = [&](const Peer&) { return kj::heap<MyServer>(); }});
//   Connection c = Connection::connect(reactor, network, server.address());
//   auto response = await(c.bootstrap<MyInterface>().helloRequest().send());
#pragma once

#include <capnp/capability.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/future.h"
#include "runtime/net/frames.h"
#include "runtime/net/transport.h"

namespace gangway {

// What a message may refer to: 512 MiB. Tensors never travel in a message.
inline constexpr uint64_t kRpcWordsMax = 64u << 20;
inline constexpr uint8_t kConnectionVersion = 2;

struct Peer {
  uint64_t connection = 0;    // Counts from 1 within a server.
  std::string user;           // Who is at its other end, as the network knows; empty: not known.
  Future<void> disconnected;  // Ready when the peer has gone.
};

struct ServerOptions {
  // Returns the capability that a new RPC peer begins with.
  std::function<capnp::Capability::Client(const Peer&)> bootstrap;
  // The stream that goes on over a peer's connection; `token` is what the peer passed to
  // connect_frames(). The peer is refused where this is unset, is null or has ended.
  std::function<FrameStream*(uint64_t token)> frames_of;
};

class Server {
 public:
  Server(Reactor& reactor, Network& network, const std::string& address, ServerOptions options);
  ~Server();

  const std::string& address() const { return listener_->address(); }
  // RPC connections that are open.
  size_t connections() const { return open_; }

 private:
  void serve(Incoming in);
  void serve_rpc(Incoming in);

  Reactor& reactor_;
  ServerOptions options_;
  uint64_t last_connection_ = 0;
  size_t open_ = 0;
  FiberGroup fibers_;
  std::unique_ptr<Listener> listener_;
};

class Connection {
 public:
  // Suspends.
  static Connection connect(Reactor& reactor, Network& network, const std::string& address,
                            DialOptions options = {});
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;
  ~Connection();

  template <class Interface>
  typename Interface::Client bootstrap() {
    return bootstrap_any().castAs<Interface>();
  }
  capnp::Capability::Client bootstrap_any();
  // Ready when the peer has gone.
  Future<void> disconnected() const;

 private:
  struct State;
  explicit Connection(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Opens a frame stream to a server, and its connection again whenever that is lost. Suspends. The
// network outlives the stream.
std::unique_ptr<FrameStream> connect_frames(Reactor& reactor, Network& network,
                                            const std::string& address, uint64_t token,
                                            FrameOptions frames = {}, DialOptions options = {});

}  // namespace gangway
