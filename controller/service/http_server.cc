#include "controller/service/http_server.h"

#include <kj/compat/http.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/error.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/port.h"

namespace gangway {
namespace {

struct HeaderTable {
  HeaderTable() {
    kj::HttpHeaderTable::Builder builder;
    authorization = builder.add("Authorization");
    origin = builder.add("Origin");
    challenge = builder.add("WWW-Authenticate");
    allow = builder.add("Allow");
    table = builder.build();
  }
  kj::HttpHeaderId authorization, origin, challenge, allow;
  kj::Own<kj::HttpHeaderTable> table;
};

// Headers of answers to browsers, unless the answer sets its own value.
constexpr std::pair<const char*, const char*> kForBrowsers[] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool same_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

// The text after "Bearer ". None if the header shows no token.
std::optional<std::string_view> bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size() ||
      !same_in_any_case(header.substr(0, kScheme.size()), kScheme))
    return std::nullopt;
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  while (header.ends_with(' ')) header.remove_suffix(1);
  return header;
}

std::optional<std::string> decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'                 ? c - '0'
           : lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'W'
                                                : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0)
      return std::nullopt;
    out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return out;
}

// Serves one connection, which has one request.
class AnsweringService final : public kj::HttpService,
                               public kj::HttpServerCallbacks,
                               public kj::HttpServerErrorHandler {
 public:
  AnsweringService(const HttpServerOptions& options, RefusalLog& refusals,
                   const HeaderTable& headers, FiberGroup& fibers, const std::string& address,
                   bool is_encrypted, const Incoming& in, std::function<void()> on_request)
      : options_(options),
        refusals_(refusals),
        headers_(headers),
        fibers_(fibers),
        address_(address),
        is_encrypted_(is_encrypted),
        is_plain_(in.is_plain),
        user_(in.user),
        from_(in.from),
        on_request_(std::move(on_request)) {}

  bool shouldClose() override { return true; }

  // Replaces KJ's own handler, which prints the error and its stack to standard error.
  kj::Promise<void> handleApplicationError(kj::Exception exception,
                                           kj::Maybe<Response&> response) override {
    if (exception.getType() == kj::Exception::Type::DISCONNECTED) return kj::READY_NOW;
    log(cut(exception.getDescription().cStr(), kQuotedBytesMax));
    KJ_IF_MAYBE (to, response) {
      return send(
          plain_answer(400, "Bad Request", cat(options_.what, ": that can't be answered\n")), *to);
    }
    return kj::READY_NOW;
  }

  kj::Promise<void> handleClientProtocolError(kj::HttpHeaders::ProtocolError error,
                                              kj::HttpService::Response& response) override {
    return send(plain_answer(error.statusCode, error.statusMessage.cStr(),
                             cat(options_.what, ": ", error.description.cStr(), "\n")),
                response);
  }

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url,
                            const kj::HttpHeaders& headers, kj::AsyncInputStream&,
                            Response& response) override {
    on_request_();
    const std::string_view whole(url.cStr(), url.size());
    const size_t path = std::min(whole.find('?'), whole.size());
    HttpRequest request{.is_get = method == kj::HttpMethod::GET,
                        .path = std::string(whole.substr(0, path)),
                        .query = std::string(whole.substr(std::min(path + 1, whole.size())))};
    if (is_plain_) return send(refuse_plain(), response);
    if (std::optional<HttpAnswer> health = health_of(request))
      return send(*std::move(health), response);
    if (std::optional<HttpAnswer> refusal = refuse(request, headers))
      return send(*std::move(refusal), response);
    const auto answer = std::make_shared<HttpAnswer>();
    return in_fiber(fibers_, "answer over HTTP",
                    [&options = options_, answer, request = std::move(request)] {
                      *answer = answer_to(options, request);
                    })
        .then([this, answer, &response] { return send(std::move(*answer), response); });
  }

 private:
  static HttpAnswer answer_to(const HttpServerOptions& options, const HttpRequest& request) {
    try {
      return options.answer(request);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;
      const bool is_theirs = error.kind() == ErrorKind::kInvalid;
      return plain_answer(is_theirs ? 400 : 503, is_theirs ? "Bad Request" : "Service Unavailable",
                          cut(error.what(), kTextBytesMax) + "\n");
    }
  }

  static std::string_view value_of(const kj::HttpHeaders& headers, kj::HttpHeaderId id) {
    KJ_IF_MAYBE (value, headers.get(id)) {
      return {value->begin(), value->size()};
    }
    return {};
  }

  HttpAnswer refuse_plain() const {
    log("it does not speak TLS");
    return plain_answer(400, "Bad Request",
                        cat(options_.what, ": expected https, got plain HTTP\n"));
  }

  // The answer to a question after the health of this process, which anybody may ask.
  std::optional<HttpAnswer> health_of(const HttpRequest& request) const {
    if (!request.is_get) return std::nullopt;
    if (request.path == "/healthz") return plain_answer(200, "OK", "ok\n");
    if (request.path != "/readyz") return std::nullopt;
    const bool is_ready = !options_.is_ready || options_.is_ready();
    return is_ready ? plain_answer(200, "OK", "ok\n")
                    : plain_answer(503, "Service Unavailable", "ending\n");
  }

  std::optional<HttpAnswer> refuse(const HttpRequest& request,
                                   const kj::HttpHeaders& headers) const {
    if (options_.for_browsers) {
      if (auto refusal = refuse_foreign(value_of(headers, kj::HttpHeaderId::HOST),
                                        value_of(headers, headers_.origin)))
        return refusal;
    }
    std::optional<std::string> shown;
    if (const auto text = bearer(value_of(headers, headers_.authorization))) {
      shown = *text;
    } else if (options_.for_browsers && request.path == "/") {
      shown = query_value(request.query, "token");
      if (shown->empty()) shown.reset();
    }
    return refuse_owner(shown);
  }

  bool is_here(std::string_view host) const {
    return same_in_any_case(host, address_) ||
           same_in_any_case(host, cat("localhost", address_.substr(address_.rfind(':'))));
  }

  // The refusal of a request that another site's page may have sent. None: it may pass.
  std::optional<HttpAnswer> refuse_foreign(std::string_view host, std::string_view origin) const {
    if (!is_encrypted_ && !is_here(host)) {
      log(cat("it is for the host \"", cut(std::string(host), kQuotedBytesMax), "\""));
      return plain_answer(421, "Misdirected Request",
                          cat(options_.what, ": expected the header Host: ", address_, "\n"));
    }
    if (origin.empty() || is_own_origin(host, origin)) return std::nullopt;
    log(cat("it comes from a page of \"", cut(std::string(origin), kQuotedBytesMax), "\""));
    return plain_answer(403, "Forbidden", cat(options_.what, ": expected no other site's page\n"));
  }

  // Whether the page that sends the request came from this server.
  bool is_own_origin(std::string_view host, std::string_view origin) const {
    const std::string_view scheme = is_encrypted_ ? "https://" : "http://";
    if (!origin.starts_with(scheme)) return false;
    origin.remove_prefix(scheme.size());
    // Under TLS the browser has compared the host with the names in the certificate.
    return is_encrypted_ ? same_in_any_case(origin, host) : is_here(origin);
  }

  // The refusal of a user who shows this token. None: the user may have the answer.
  std::optional<HttpAnswer> refuse_owner(const std::optional<std::string>& shown) const {
    std::string user = options_.for_browsers ? "" : user_;
    if (user.empty()) {
      if (!shown) return unauthorized("it shows no token");
      const auto token = parse_token(*shown);
      const auto owner =
          token && options_.tokens != nullptr ? options_.tokens->owner_of(*token) : std::nullopt;
      if (!owner) return unauthorized("nobody has the token that it shows");
      user = *owner;
    }
    if (user == options_.user) return std::nullopt;
    log(cat("it is of ", user, ", and only ", options_.user,
            ", who runs the controller, sees all"));
    return plain_answer(
        403, "Forbidden",
        cat(options_.what, ": expected the token of who runs the controller, got another's\n"));
  }

  HttpAnswer unauthorized(const char* why) const {
    log(why);
    return plain_answer(
        401, "Unauthorized",
        cat(options_.what, options_.for_browsers
                               ? ": expected the whole address that the controller printed\n"
                               : ": expected \"Authorization: Bearer\" and the token of who runs "
                                 "the controller\n"));
  }

  void log(const std::string& why) const {
    refusals_.warn(cat("a request for ", options_.what, " was refused"), from_, why);
  }

  kj::Promise<void> send(HttpAnswer answer, Response& response) const {
    kj::HttpHeaders headers(*headers_.table);
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, kj::str(answer.type));
    if (answer.status == 401) headers.set(headers_.challenge, "Bearer realm=\"gangway\"");
    if (answer.status == 405) headers.set(headers_.allow, "GET");
    for (const auto& [name, value] : answer.headers) headers.add(kj::str(name), kj::str(value));
    if (options_.for_browsers) {
      for (const auto& [name, value] : kForBrowsers) {
        if (!std::ranges::count(answer.headers, name, &std::pair<std::string, std::string>::first))
          headers.add(name, value);
      }
    }
    const size_t size = answer.body->size();
    auto stream = response.send(answer.status, kj::StringPtr(answer.reason.c_str()), headers, size);
    auto written = stream->write(answer.body->data(), size);
    return written.attach(kj::mv(stream), kj::heap(std::move(answer)));
  }

  const HttpServerOptions& options_;
  RefusalLog& refusals_;
  const HeaderTable& headers_;
  FiberGroup& fibers_;
  const std::string& address_;
  const bool is_encrypted_, is_plain_;
  const std::string user_, from_;
  const std::function<void()> on_request_;
};

kj::HttpServerSettings settings(AnsweringService& service, Duration time_limit) {
  kj::HttpServerSettings settings;
  settings.headerTimeout = time_limit / std::chrono::nanoseconds(1) * kj::NANOSECONDS;
  // The connection ends with its answer, whose header says this; else KJ would wait for another
  // request.
  settings.pipelineTimeout = 0 * kj::NANOSECONDS;
  settings.canceledUploadGraceBytes = 4096;
  settings.callbacks = static_cast<kj::HttpServerCallbacks&>(service);
  settings.errorHandler = static_cast<kj::HttpServerErrorHandler&>(service);
  return settings;
}

}  // namespace

HttpAnswer plain_answer(uint32_t status, std::string reason, std::string text) {
  return {.status = status,
          .reason = std::move(reason),
          .body = std::make_shared<const std::string>(std::move(text))};
}

std::string query_value(const std::string& query, const std::string& name) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string_view part = std::string_view(query).substr(at, end - at);
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=')
      return decoded(part.substr(name.size() + 1)).value_or("");
    at = end + 1;
  }
  return "";
}

HttpServer::HttpServer(Reactor& reactor, Network& network, const std::string& address,
                       HttpServerOptions options)
    : reactor_(reactor),
      options_(std::move(options)),
      is_encrypted_(network.encrypts(address)),
      refusals_(reactor.clock(), options_.log),
      fibers_(reactor) {
  const auto refused = [this](const std::string& from, const std::string& why) {
    refusals_.warn(cat("a connection for ", options_.what, " was refused"), from, why);
  };
  listener_ = network.listen(address, [this](Incoming in) { take(kj::mv(in)); },
                             {.on_refused = refused, .clients = Tls::Clients::kAny});
}

HttpServer::~HttpServer() {
  listener_.reset();
  fibers_.cancel();
}

void HttpServer::take(Incoming in) {
  if (open_ >= options_.connections_max) {
    if (silent_.empty()) {
      return refusals_.warn(cat("a connection for ", options_.what, " was closed"), in.from,
                            "there are too many");
    }
    silent_.extract(silent_.begin()).mapped()->fulfill();
  }
  ++open_;
  const uint64_t number = ++last_connection_;
  auto yields = kj::newPromiseAndFulfiller<void>();
  silent_.emplace(number, yields.fulfiller.get());
  fibers_.spawn("serve HTTP", [this, number, i = kj::mv(in), y = kj::mv(yields)]() mutable {
    KJ_DEFER({
      silent_.erase(number);
      --open_;
    });
    serve(kj::mv(i), number, kj::mv(y.promise));
  });
}

void HttpServer::serve(Incoming in, uint64_t number, kj::Promise<void> yields) {
  const HeaderTable headers;
  AnsweringService service(options_, refusals_, headers, fibers_, listener_->address(),
                           is_encrypted_, in, [this, number] { silent_.erase(number); });
  kj::Timer& timer = reactor_.port().timer();
  kj::HttpServer server(timer, *headers.table, service, settings(service, options_.time_limit));
  const kj::TimePoint deadline =
      internal::to_kj_time(reactor_.clock().now_ns() + options_.time_limit.count());
  try {
    auto served = server.listenHttp(kj::mv(in.stream));
    await(timer.timeoutAt(deadline, served.exclusiveJoin(kj::mv(yields))));
  } catch (const Error& error) {
    // A peer that goes away, or takes too long, is not reported as an error.
    if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kOverloaded) throw;
  }
}

}  // namespace gangway
