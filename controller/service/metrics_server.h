// MetricsServer: a page of metrics over HTTP, for Prometheus, at /metrics of an address of its own.
//
// Trust: as at the controller's other address. Over TCP who asks shows a token:
// "Authorization: Bearer" and the text of the token file. Only `user` is given the page. Without a
// token 401 comes back, with another owner's 403, whatever was asked for, and a line of the log
// says who was refused and why.
// Bounds: a connection is for one request of 128 KiB at most, and ends after kRequestTimeLimit,
// even while its answer is read slowly. There are kConnectionsMax at a time; further ones are
// closed.
//
// Threads: the reactor's thread; destroying it suspends briefly.
// Errors: the constructor throws as Network::listen() does.
//
// Example:
//   MetricsServer server(reactor, network, "127.0.0.1:7041", {.user = own_user_name(),
//                        .tokens = tokens, .page = [&] { return text; }});
//   print(server.address());
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controller/service/tokens.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/net/transport.h"

namespace gangway {

struct MetricsServerOptions {
  std::string user;                    // Who is given the page.
  std::shared_ptr<TokenTable> tokens;  // Null: nobody has one.
  std::function<std::string()> page;   // In Prometheus' text format; must not suspend.
  Logger log = {};
};

class MetricsServer {
 public:
  static constexpr size_t kConnectionsMax = 16;
  static constexpr Duration kRequestTimeLimit = std::chrono::seconds(10);

  MetricsServer(Reactor& reactor, Network& network, const std::string& address,
                MetricsServerOptions options);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;

  const std::string& address() const { return listener_->address(); }

 private:
  void serve(Incoming in);

  Reactor& reactor_;
  const MetricsServerOptions options_;
  size_t open_ = 0;
  FiberGroup fibers_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace gangway
