#include "controller/service/metrics_server.h"

#include <kj/compat/http.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/error.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/port.h"

namespace gangway {
namespace {

struct HttpAnswer {
  uint32_t status = 200;
  kj::StringPtr reason;
  std::string body;
};

struct HeaderTable {
  HeaderTable() {
    kj::HttpHeaderTable::Builder builder;
    authorization = builder.add("Authorization");
    challenge = builder.add("WWW-Authenticate");
    allow = builder.add("Allow");
    table = builder.build();
  }
  kj::HttpHeaderId authorization, challenge, allow;
  kj::Own<kj::HttpHeaderTable> table;
};

// What stands behind "Bearer "; nothing: no token is shown.
std::optional<std::string_view> bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
  if (header.size() < kScheme.size() ||
      !std::ranges::equal(header.substr(0, kScheme.size()), kScheme, same))
    return std::nullopt;
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  while (header.ends_with(' ')) header.remove_suffix(1);
  return header;
}

// Of one connection, and so one request.
class MetricsService final : public kj::HttpService,
                             public kj::HttpServerCallbacks,
                             public kj::HttpServerErrorHandler {
 public:
  MetricsService(const MetricsServerOptions& options, const HeaderTable& headers,
                 const std::string& user, const std::string& from)
      : options_(options), headers_(headers), user_(user), from_(from) {}

  bool shouldClose() override { return true; }

  // KJ's own handler prints it, and its stack, to standard error.
  kj::Promise<void> handleApplicationError(kj::Exception exception,
                                           kj::Maybe<Response&> response) override {
    if (exception.getType() == kj::Exception::Type::DISCONNECTED) return kj::READY_NOW;
    log(cut(exception.getDescription().cStr(), kQuotedBytesMax));
    KJ_IF_MAYBE (to, response) {
      return send({400, "Bad Request", "metrics: that can't be answered\n"}, *to);
    }
    return kj::READY_NOW;
  }

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url,
                            const kj::HttpHeaders& headers, kj::AsyncInputStream&,
                            Response& response) override {
    return send(answer_to(method, url.cStr(), headers), response);
  }

 private:
  HttpAnswer answer_to(kj::HttpMethod method, std::string_view url,
                       const kj::HttpHeaders& headers) const {
    std::string_view shown;
    KJ_IF_MAYBE (value, headers.get(headers_.authorization)) {
      shown = {value->begin(), value->size()};
    }
    if (std::optional<HttpAnswer> refusal = refuse(shown)) return *std::move(refusal);
    if (url.substr(0, url.find('?')) != "/metrics")
      return {404, "Not Found", "there is nothing here but /metrics\n"};
    if (method != kj::HttpMethod::GET)
      return {405, "Method Not Allowed", "/metrics: expected the method GET\n"};
    return {200, "OK", options_.page()};
  }

  // Why who shows this is given nothing.
  std::optional<HttpAnswer> refuse(std::string_view shown) const {
    std::string user = user_;
    if (user.empty()) {
      const auto text = bearer(shown);
      if (!text) return unauthorized("it shows no token");
      const auto token = parse_token(*text);
      const auto owner =
          token && options_.tokens != nullptr ? options_.tokens->owner_of(*token) : std::nullopt;
      if (!owner) return unauthorized("nobody has the token that it shows");
      user = *owner;
    }
    if (user == options_.user) return std::nullopt;
    log(cat("it is of ", user, ", and only ", options_.user,
            ", who runs the controller, sees all"));
    return HttpAnswer{403, "Forbidden",
                      "metrics: expected the token of who runs the controller, got another's\n"};
  }

  HttpAnswer unauthorized(const char* why) const {
    log(why);
    return {401, "Unauthorized",
            "metrics: expected \"Authorization: Bearer\" and the token of who runs the "
            "controller\n"};
  }

  void log(const std::string& why) const {
    options_.log.warn("a request for metrics was refused", {{"from", from_}, {"why", why}});
  }

  kj::Promise<void> send(HttpAnswer answer, Response& response) const {
    kj::HttpHeaders headers(*headers_.table);
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, answer.status == 200
                                                    ? "text/plain; version=0.0.4; charset=utf-8"
                                                    : "text/plain; charset=utf-8");
    if (answer.status == 401) headers.set(headers_.challenge, "Bearer realm=\"gangway\"");
    if (answer.status == 405) headers.set(headers_.allow, "GET");
    auto body = kj::heap(std::move(answer.body));
    auto stream = response.send(answer.status, answer.reason, headers, body->size());
    auto written = stream->write(body->data(), body->size());
    return written.attach(kj::mv(stream), kj::mv(body));
  }

  const MetricsServerOptions& options_;
  const HeaderTable& headers_;
  const std::string user_, from_;
};

kj::HttpServerSettings settings(MetricsService& service) {
  kj::HttpServerSettings settings;
  settings.headerTimeout =
      MetricsServer::kRequestTimeLimit / std::chrono::nanoseconds(1) * kj::NANOSECONDS;
  // The connection ends with its answer, which says so: KJ would wait for another request.
  settings.pipelineTimeout = 0 * kj::NANOSECONDS;
  settings.canceledUploadGraceBytes = 4096;
  settings.callbacks = static_cast<kj::HttpServerCallbacks&>(service);
  settings.errorHandler = static_cast<kj::HttpServerErrorHandler&>(service);
  return settings;
}

}  // namespace

MetricsServer::MetricsServer(Reactor& reactor, Network& network, const std::string& address,
                             MetricsServerOptions options)
    : reactor_(reactor), options_(std::move(options)), fibers_(reactor) {
  listener_ = network.listen(address, [this](Incoming in) {
    if (open_ >= kConnectionsMax) {
      options_.log.warn("a connection for metrics was closed: there are too many",
                        {{"from", in.from}});
      return;
    }
    ++open_;
    fibers_.spawn("serve metrics", [this, i = kj::mv(in)]() mutable {
      struct Close {
        size_t& open;
        ~Close() { --open; }
      } close{open_};
      serve(kj::mv(i));
    });
  });
}

MetricsServer::~MetricsServer() {
  listener_.reset();
  fibers_.cancel();
}

void MetricsServer::serve(Incoming in) {
  const HeaderTable headers;
  MetricsService service(options_, headers, in.user, in.from);
  kj::Timer& timer = reactor_.port().timer();
  kj::HttpServer server(timer, *headers.table, service, settings(service));
  const kj::TimePoint deadline =
      internal::to_kj_time(reactor_.clock().now_ns() + kRequestTimeLimit.count());
  try {
    await(timer.timeoutAt(deadline, server.listenHttp(kj::mv(in.stream))));
  } catch (const Error& error) {
    // A peer that goes away, or takes too long, is not reported as an error.
    if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kOverloaded) throw;
  }
}

}  // namespace gangway
