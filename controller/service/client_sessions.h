// ClientSessions: the sessions of clients on a network, each of which outlives its connections by a
// lease.
//
// A client attaches to its session over each RPC connection anew, with the key that only it knows;
// its frame stream finds its way back by itself (runtime/net/frames.h). The session ends when the
// client closes it, when its process has ended, when it has not come back within its lease, or when
// its stream breaks the rules; then all that it holds is freed.
//
// A client may detach, and another attach to the program by its name later. From then on a client
// that dies, or does not come back, leaves the program detached again; closing ends it.
//
// Threads: the reactor's thread.
// Ownership: the controller and `fibers` outlive it; a session keeps its peer.
// Errors: attach() throws kUnavailable for a session that is not there, and for a wrong key;
// find_detached() kInvalid for a program that is not there, or has a client.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "controller/controller.h"
#include "controller/service/peers_rpc.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/os/process_identity.h"

namespace gangway {

// A request that a program end.
struct StopRequest {
  std::string by;                // The owner who asks, or the controller.
  int64_t grace_ms = 0;          // Time that its client may take.
  bool controller_ends = false;  // The controller ends, and asks all programs that end with it.
};

// Whether a stream ended with this error because its client sent a malformed frame, too much, or a
// frame that a client may not send.
bool breaks_rules(const Error& why);

class ClientSessions {
 public:
  // Sends the request. The future says whether the client acts on it; it fails if the client has
  // gone.
  using TellStop = std::function<Future<bool>(const StopRequest&)>;
  struct Session {
    SessionId id;
    uint64_t key = 0;
    uint64_t nonce = 0;  // The client's, of its first connection; 0: none.
    std::string owner;
    std::shared_ptr<ClientRpc> peer;  // Null: it has had no client yet.
    ProcessIdentity process;
    std::string why_closed = "it was closed";  // Valid once it is closed.
    uint64_t attachment = 1;                   // The number of its connection, counted from 1.
    bool is_attached = true;
    bool goes_on = false;        // A client has detached from it before.
    bool is_detached = false;    // It has no client, and waits for none.
    int64_t attached_at_ns = 0;  // When its client connected first.
    std::string not_yet;         // Why nobody may attach to it now. Empty: its owner may.
    TellStop tell_stop;          // Over its connection. Empty: the client does not watch for it.
    std::function<void()> hang_up;
    std::optional<StopRequest> stop;
    WaitQueue changed;
  };

  struct Options {
    int64_t lease_ms = 60'000;
    Logger log;
    // Called with a stream that no session has any more.
    std::function<void(const std::shared_ptr<PeerStream>&)> forget;
  };
  ClientSessions(Reactor& reactor, Controller& controller, FiberGroup& fibers, Options options)
      : reactor_(reactor), controller_(controller), fibers_(fibers), options_(std::move(options)) {}

  // The client has connected.
  void add(std::shared_ptr<Session> session);
  // Adds a program that had a client under an earlier controller.
  void add_detached(const std::shared_ptr<Session>& session);
  bool is_open(SessionId id) const { return sessions_.contains(id); }
  // The detached session of the owner's program. The caller has yet to enter its new client.
  std::shared_ptr<Session> find_detached(const std::string& owner, const std::string& name) const;
  // The client goes, and the session goes on.
  void detach(SessionId id);
  bool is_detached(SessionId id) const;
  // Sends requests to stop through `tell` from now on, also one that was made before.
  static void tell_of_stops(Session& session, TellStop tell);
  void tell_of_stops(SessionId id, TellStop tell);
  // Ends the session. True: by force, since it did not end by itself within the grace. Suspends.
  bool stop(SessionId id, const StopRequest& request);
  // The session of this owner that was opened with this nonce. Null if there is none.
  std::shared_ptr<Session> opened_with(uint64_t nonce, const std::string& owner) const;
  // The client has connected again. Returns the number of this connection.
  uint64_t attach(SessionId id, uint64_t key, const std::string& owner);
  // A call has come over this connection. Throws kUnavailable when there is a later one.
  void require_current(SessionId id, uint64_t attachment) const;
  bool is_current(SessionId id, uint64_t attachment) const;
  // The session uses another connection from now on, which `hang_up` closes.
  void goes_on_over(SessionId id, std::function<void()> hang_up);
  // This connection has ended: the lease begins, unless there is a later one.
  void lost(SessionId id, uint64_t attachment);
  // Its frame stream has ended. If the client broke the rules, its connection is closed too.
  void stream_ended(SessionId id, const Error& why);
  void close(SessionId id);
  // Asks the programs that have clients to end, as stop() does, but for those that `stays` names.
  // Suspends until they have ended, or their clients answer that they do not act on it; at most for
  // the grace, and until `at_once` is stopped.
  void stop_all(const StopRequest& request, const std::function<bool(SessionId)>& stays,
                const StopToken& at_once);
  void close_all();

 private:
  void wait_for_client(const std::shared_ptr<Session>& session, uint64_t attachment);

  Reactor& reactor_;
  Controller& controller_;
  FiberGroup& fibers_;
  const Options options_;
  std::map<SessionId, std::shared_ptr<Session>> sessions_;
  // Woken when there are fewer sessions that stop_all() waits for.
  const std::shared_ptr<WaitQueue> fewer_ = std::make_shared<WaitQueue>();
  bool is_over_ = false;
};

}  // namespace gangway
