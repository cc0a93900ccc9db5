// HttpServer: pages over HTTP for who runs the controller, at an address of their own.
//
// Trust: as at the controller's other address. Over TCP who asks shows a token:
// "Authorization: Bearer" and the text of the token file. Only `user` is answered. Without a token
// 401 comes back, with another owner's 403, whatever was asked for, and a line of the log says who
// was refused and why.
// For browsers, which other sites' scripts can lead here (`for_browsers`): the token also stands in
// the query of "/" ("/?token=..."), as nobody can type headers. A Host that is neither the address
// nor localhost with its port (a name that was made to mean 127.0.0.1) is refused with 421, and an
// Origin that is not this server with 403, before any token is looked at; so is a connection whose
// user is known but shows no token, as any page in that user's browser would be. Every answer says
// that it is not to be kept, guessed at, put into a frame or named to others.
// Bounds: a connection is for one request of 128 KiB at most, and ends after its time limit, even
// while its answer is read slowly. There are `connections_max` at a time; further ones are closed.
//
// Threads: the reactor's thread; destroying it suspends briefly.
// Errors: the constructor throws as Network::listen() does. What `answer` throws becomes 400
// (kInvalid) or 503 with its message.
//
// Example:
//   HttpServer server(reactor, network, "127.0.0.1:7041", {.what = "metrics",
//                     .user = own_user_name(), .tokens = tokens, .answer = answer_to});
//   print(server.address());
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/service/tokens.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/net/transport.h"

namespace gangway {

struct HttpRequest {
  bool is_get = false;
  std::string path;   // As it was sent, up to the '?'; nothing in it is decoded.
  std::string query;  // Behind it.
};

struct HttpAnswer {
  uint32_t status = 200;
  std::string reason = "OK";
  std::shared_ptr<const std::string> body = nullptr;  // Shared with others that read the same.
  std::string type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Of a refusal or an error, as text.
HttpAnswer plain_answer(uint32_t status, std::string reason, std::string text);

// The value of a name in a query, percent signs decoded; empty: it has none, or is malformed.
std::string query_value(const std::string& query, const std::string& name);

struct HttpServerOptions {
  std::string what;                                      // Begins its messages: "metrics".
  std::string user;                                      // Who is answered.
  std::shared_ptr<TokenTable> tokens;                    // Null: nobody has one.
  std::function<HttpAnswer(const HttpRequest&)> answer;  // In a fiber: may suspend.
  bool for_browsers = false;
  size_t connections_max = 16;
  Duration time_limit = std::chrono::seconds(10);
  Logger log = {};
};

class HttpServer {
 public:
  HttpServer(Reactor& reactor, Network& network, const std::string& address,
             HttpServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  const std::string& address() const { return listener_->address(); }

 private:
  void serve(Incoming in);

  Reactor& reactor_;
  const HttpServerOptions options_;
  size_t open_ = 0;
  FiberGroup fibers_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace gangway
