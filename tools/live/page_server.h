// PageServer: the page of a running cluster over HTTP, for the operator, who runs its controller.
// Trust and bounds are those of HttpServer for browsers (controller/service/http_server.h).
//
//   /?token=...                        the page; its script shows the token with later requests
//   /api/cluster                       current hosts, devices, programs and executables
//   /api/history?after=N               programs' numbers in samples behind N (history.h)
//   /api/graph?program=NAME&plan=N     the document of an executable (tools/page/page.h)
//   /api/timeline?program=NAME&plan=N  newest work of its devices (live_timeline.h)
//
// Threads: the reactor's thread; destroying it suspends briefly.
// Errors: the constructor throws as Network::listen() does, and kInvalid for a Unix socket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/service/http_server.h"

namespace gangway::tool {

struct GraphWanted {
  std::string program;  // Its name, or OWNER/NAME.
  uint64_t plan = 0;    // 0: the program's only plan.
};

struct PageServerOptions {
  std::string user;                    // User who may see the page.
  std::shared_ptr<TokenTable> tokens;  // Null: no user has a token.
  // Each returns JSON. They may suspend; HttpServer says how their errors are answered.
  std::function<std::string()> cluster;
  std::function<std::string(uint64_t after)> history;
  std::function<std::shared_ptr<const std::string>(const GraphWanted&)> graph;
  std::function<std::string(const GraphWanted&)> timeline;
  std::function<bool()> is_ready = {};             // See HttpServerOptions.
  Duration time_limit = std::chrono::seconds(30);  // Limit for a request and its answer together.
  Logger log = {};
};

class PageServer {
 public:
  // A browser opens six connections at a time, and some before it needs them.
  static constexpr size_t kConnectionsMax = 32;

  PageServer(Reactor& reactor, Network& network, const std::string& address,
             PageServerOptions options);

  const std::string& address() const { return http_.address(); }

 private:
  HttpServer http_;
};

}  // namespace gangway::tool
