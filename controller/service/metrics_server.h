// MetricsServer: a page of metrics over HTTP, for Prometheus, at /metrics of an address of its own.
// It has the trust and the bounds of HttpServer (http_server.h).
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

#include "controller/service/http_server.h"

namespace gangway {

struct MetricsServerOptions {
  std::string user;                     // The only user that gets the page.
  std::shared_ptr<TokenTable> tokens;   // Null: no token is valid.
  std::function<std::string()> page;    // Returns the page in Prometheus' text format.
  std::function<bool()> is_ready = {};  // See HttpServerOptions.
  Logger log = {};
};

class MetricsServer {
 public:
  static constexpr size_t kConnectionsMax = 16;

  MetricsServer(Reactor& reactor, Network& network, const std::string& address,
                MetricsServerOptions options);

  const std::string& address() const { return http_.address(); }

 private:
  HttpServer http_;
};

}  // namespace gangway
