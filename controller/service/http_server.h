// HttpServer: pages over HTTP for the user who runs the controller, at an address of their own.
//
// Trust: the same as at the controller's other address. Over TCP a request shows a token:
// "Authorization: Bearer" and the text of the token file. Only `user` gets an answer. A request
// without a token is refused with 401, one with another owner's token with 403, whatever its path
// (but those of health, below), and a line of the log says who was refused and why.
// For browsers, which other sites' scripts can lead here (`for_browsers`): the token may also be in
// the query of "/" ("/?token=..."), since nobody can type headers. A Host that is neither the
// address nor localhost with its port (a name that was made to mean 127.0.0.1) is refused with 421,
// and an Origin that is not this server with 403, before any token is looked at. A connection whose
// user is known needs a token too, since any page in that user's browser could open one. Headers of
// every answer forbid to store it, guess its type, put it into a frame or name its address to
// others.
// Under TLS (runtime/net/transport.h) this server shows its certificate and asks for none, since
// browsers, Prometheus and kubelets have none: the token is what they show. Plain HTTP is answered
// with 400 then. A browser has checked the Host by the certificate, and the Origin must be that.
// Health: GET /healthz and /readyz are answered by 200 or 503 and one word, before a token, Host or
// Origin is looked at: they tell that the process is there, and whether it takes clients.
// Bounds: a connection is for one request of 128 KiB at most, and ends after its time limit, even
// while its answer is read slowly. There are `connections_max` at a time. A further one takes the
// place of the oldest that has sent no request yet, so that strangers who stay silent keep no
// Prometheus and no kubelet out; if all have sent one, it is closed.
//
// Threads: the reactor's thread; destroying it suspends briefly.
// Errors: the constructor throws as Network::listen() does. An error of `answer` becomes 400
// (kInvalid) or 503 with its message.
//
// Example:
//   HttpServer server(reactor, network, "127.0.0.1:7041", {.what = "metrics",
//                     .user = own_user_name(), .tokens = tokens, .answer = answer_to});
//   print(server.address());
#pragma once

#include <kj/async.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/service/refusal_log.h"
#include "controller/service/tokens.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/net/transport.h"

namespace gangway {

struct HttpRequest {
  bool is_get = false;
  std::string path;   // Up to the '?', with nothing decoded.
  std::string query;  // After the '?', with nothing decoded.
};

struct HttpAnswer {
  uint32_t status = 200;
  std::string reason = "OK";
  std::shared_ptr<const std::string> body = nullptr;  // Shared by all answers with this body.
  std::string type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The answer for a refusal or an error, as plain text.
HttpAnswer plain_answer(uint32_t status, std::string reason, std::string text);

// The value of a name in a query, with percent signs decoded. Empty if the query has no such name,
// or the value is malformed.
std::string query_value(const std::string& query, const std::string& name);

struct HttpServerOptions {
  std::string what;                                      // Begins its messages: "metrics".
  std::string user;                                      // The only user that gets answers.
  std::shared_ptr<TokenTable> tokens;                    // Null: no token is valid.
  std::function<HttpAnswer(const HttpRequest&)> answer;  // Called in a fiber; may suspend.
  bool for_browsers = false;
  size_t connections_max = 16;
  std::function<bool()> is_ready = {};  // The answer of /readyz; null: always yes.
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
  void take(Incoming in);
  void serve(Incoming in, uint64_t number, kj::Promise<void> yields);

  Reactor& reactor_;
  const HttpServerOptions options_;
  const bool is_encrypted_;
  RefusalLog refusals_;
  size_t open_ = 0;
  uint64_t last_connection_ = 0;
  // Connections that have sent no request yet, the oldest first. Fulfilled: it ends for another.
  std::map<uint64_t, kj::PromiseFulfiller<void>*> silent_;
  FiberGroup fibers_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace gangway
