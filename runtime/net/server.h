// Server and Connection: Cap'n Proto RPC and frames between two processes, through one address.
//
// A connection begins with a preamble that names its kind, so that one port serves both kinds and a
// peer of another wire version gets an answer that says so instead of being misread:
//
//   client -> server, 16 bytes: "GWAY" | u8 version | u8 kind (0 RPC, 1 frames) | u16 0 | u64 key
//                     32 bytes: access token, or zeros
//   server -> client,   8 bytes: "GWAY" | u8 version | u8 status (0 fine) | u16 0
//
// A frame stream outlives its connection (frames.h): its peer connects again with the same key.
//
// Trust: a server learns the peer's user from the network (transport.h): from the system, or from
// the certificate that the peer shows. Else it learns it from the peer's token, which nobody shows
// over TLS. A server that asks for tokens refuses a peer that has none of these.
// Threads: the reactor's thread; connecting suspends, bootstrap() is called in a fiber. Destroying
// suspends briefly.
// Ownership: a Server owns its RPC connections; destroying it drops them. A Connection's
// capabilities outlive it but fail with kUnavailable.
// Errors: kUnavailable when nobody answers, kInvalid when the peer is not a Gangway of this wire
// version, or asks for a token that was not shown.
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
#include <optional>
#include <string>

#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/future.h"
#include "runtime/net/frames.h"
#include "runtime/net/message_stream.h"
#include "runtime/net/transport.h"

namespace gangway {

// Words that a message may refer to: 512 MiB. Tensors never travel in a message.
inline constexpr uint64_t kRpcWordsMax = 64u << 20;
inline constexpr uint8_t kConnectionVersion = 3;
// Limit on connections to one server that have not finished their preamble; each may take 10 s.
inline constexpr size_t kHalfOpenMax = 256;
// The same for peers that do not speak TLS to a server that does. They are only told so, within
// 2 s, and leave the room above to peers with certificates.
inline constexpr size_t kPlainMax = 16;

struct Peer {
  uint64_t connection = 0;  // Counts from 1 within a server.
  std::string user;         // User at the other end: an owner, "host:NAME", or empty: not known.
  std::string from;         // Address of the peer, for messages.
  std::optional<Certificate> certificate;  // The peer's; none: without TLS.
  Future<void> disconnected;               // Ready when the peer has gone.
  // Closes the connection once the answers given before have been sent. It may be closed already.
  std::function<void()> hang_up;
};

struct ServerOptions {
  // Returns the capability that a new RPC peer begins with.
  std::function<capnp::Capability::Client(const Peer&)> bootstrap;
  // Returns the stream that goes on over a peer's connection. `key` is the peer's argument to
  // connect_frames(), `user` is as in Peer. The peer is refused if this is unset, or if it returns
  // null or a stream that has ended.
  std::function<FrameStream*(uint64_t key, const std::string& user)> frames_of;
  // Whether the user may open one more connection for RPC; null: as many as it likes.
  std::function<bool(const std::string& user)> has_room_for = {};
  // Returns the user of the token that a peer shows, if the network doesn't know the peer's user.
  // No value: no user has this token, and the peer is refused. If this is unset, such a peer is let
  // in without a user.
  std::function<std::optional<std::string>(const AccessToken&)> user_of;
  // Called for each connection that was refused.
  std::function<void(const std::string& from, const std::string& why)> on_refused;
  OnTrouble on_trouble = {};
  // Returns the budget that messages of this RPC connection take their bytes from. Null: they may
  // be as large as the peer sends them.
  std::function<std::shared_ptr<MessageBudget>(const Peer&)> budget_of = {};
};

class Server {
 public:
  Server(Reactor& reactor, Network& network, const std::string& address, ServerOptions options);
  ~Server();

  const std::string& address() const { return listener_->address(); }
  // Number of open RPC connections.
  size_t connections() const { return open_; }

 private:
  // Counts a connection that has not finished its preamble, while this object lives.
  struct HalfOpen {
    explicit HalfOpen(size_t& of) : count(of) { ++count; }
    ~HalfOpen() { --count; }
    HalfOpen(const HalfOpen&) = delete;
    size_t& count;
  };
  void serve(Incoming in);
  // The user at the other end of `in`, who shows `token`; no value if the peer is to be refused.
  void serve_rpc(Incoming in);
  void refused(const std::string& from, const std::string& why) const;

  Reactor& reactor_;
  ServerOptions options_;
  uint64_t last_connection_ = 0;
  size_t open_ = 0, half_open_ = 0, plain_ = 0;
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
                                            const std::string& address, uint64_t key,
                                            FrameOptions frames = {}, DialOptions options = {});

}  // namespace gangway
