// Server and Connection: Cap'n Proto RPC and frames between two processes, through one address.
//
// A connection begins with a preamble that says what it is, so that one port serves both kinds and
// a peer of another wire version is told so instead of being misread:
//
//   client -> server, 16 bytes: "GWAY" | u8 version | u8 kind (0 RPC, 1 frames) | u16 0 | u64 key
//                     32 bytes: access token, or zeros
//   server -> client,   8 bytes: "GWAY" | u8 version | u8 status (0 fine) | u16 0
//
// A frame stream outlives its connection (frames.h): its peer connects again with the same key.
//
// Trust: a server knows who is at the other end by the network (transport.h), or by the token that
// a peer shows; without either nothing but a refusal comes back.
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

// What a message may refer to: 512 MiB. Tensors never travel in a message.
inline constexpr uint64_t kRpcWordsMax = 64u << 20;
inline constexpr uint8_t kConnectionVersion = 3;
// Connections to one server that have not said yet who they are; each may take 10 s.
inline constexpr size_t kHalfOpenMax = 256;

struct Peer {
  uint64_t connection = 0;    // Counts from 1 within a server.
  std::string user;           // Who is at its other end; empty: not known.
  std::string from;           // Where it connects from, for messages.
  Future<void> disconnected;  // Ready when the peer has gone.
  // Closes the connection once what was answered before is on its way. It may be closed already.
  std::function<void()> hang_up;
};

struct ServerOptions {
  // Returns the capability that a new RPC peer begins with.
  std::function<capnp::Capability::Client(const Peer&)> bootstrap;
  // The stream that goes on over a peer's connection; `key` is what the peer passed to
  // connect_frames(), `user` as in Peer. The peer is refused where this is unset, is null or has
  // ended.
  std::function<FrameStream*(uint64_t key, const std::string& user)> frames_of;
  // Whether the user may open one more connection for RPC; null: as many as it likes.
  std::function<bool(const std::string& user)> has_room_for = {};
  // Who has the token that a peer shows whom the network doesn't know; no value: nobody. Such a
  // peer is refused then. Where this is unset it is let in, and nothing is known of it.
  std::function<std::optional<std::string>(const AccessToken&)> user_of;
  // Told of each connection that was refused.
  std::function<void(const std::string& from, const std::string& why)> on_refused;
  OnTrouble on_trouble = {};
  // The budget that messages of this RPC connection take their bytes from. Null: they may take as
  // much as the peer sends.
  std::function<std::shared_ptr<MessageBudget>(const Peer&)> budget_of = {};
};

class Server {
 public:
  Server(Reactor& reactor, Network& network, const std::string& address, ServerOptions options);
  ~Server();

  const std::string& address() const { return listener_->address(); }
  // RPC connections that are open.
  size_t connections() const { return open_; }

 private:
  // One that has not said who it is, while this lives.
  struct HalfOpen {
    explicit HalfOpen(size_t& of) : count(of) { ++count; }
    ~HalfOpen() { --count; }
    HalfOpen(const HalfOpen&) = delete;
    size_t& count;
  };
  void serve(Incoming in);
  // The user at the other end of `in`, who shows `token`; no value: it is refused.
  std::optional<std::string> user_of(const Incoming& in, const AccessToken& token) const;
  void serve_rpc(Incoming in);
  void refused(const std::string& from, const std::string& why) const;

  Reactor& reactor_;
  ServerOptions options_;
  uint64_t last_connection_ = 0;
  size_t open_ = 0, half_open_ = 0;
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
