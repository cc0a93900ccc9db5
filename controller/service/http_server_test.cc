// A server for browsers gets requests over a real socket, some of which it has to refuse.
#include "controller/service/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fibers/wait_queue.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/support/error_of.h"
#include "tests/support/net/say_and_hear.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kScheme[] = "http://";
constexpr char kSecret[] = "what only the owner may read";

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() { start({.connections_max = 4, .time_limit = std::chrono::seconds(10)}); }
  ~HttpServerTest() noexcept override {
    reactor_->run([&] { server_.reset(); });
  }

  void start(HttpServerOptions options) {
    options.what = "page";
    options.user = own_user_name();
    options.tokens = tokens_;
    options.for_browsers = true;
    options.log = Logs({.levels = "warn", .file = log_}).module("controller");
    options.answer = [this](const HttpRequest& request) { return answer(request); };
    reactor_->run([&] {
      if (!network_) network_.emplace(*reactor_);
      server_.reset();
      server_.emplace(*reactor_, *network_, "127.0.0.1:0", std::move(options));
    });
  }

  HttpAnswer answer(const HttpRequest& request) {
    ++asked_;
    if (request.path == "/error") GW_REQUIRE(false, "page: ", request.query, ": it is not there");
    if (request.path == "/large")
      return {.body = std::make_shared<const std::string>(64 << 20, 'x')};
    if (request.path != "/" && request.path != "/data")
      return plain_answer(404, "Not Found", "there is nothing here\n");
    if (!request.is_get) return plain_answer(405, "Method Not Allowed", "expected GET\n");
    return {.body = std::make_shared<const std::string>(kSecret)};
  }

  std::string own() const { return to_text(read_token()); }
  AccessToken read_token() const {
    std::ifstream in(file_);
    std::string text;
    in >> text;
    return *parse_token(text);
  }
  std::string bearer() const { return cat("Authorization: Bearer ", own(), "\r\n"); }
  Stream connect() { return network_->connect(server_->address()); }
  std::string said(const std::string& text) {
    return reactor_->run([&] {
      Stream stream = connect();
      say(stream, text);
      return hear(stream);
    });
  }
  std::string ask(const std::string& line, const std::string& headers, std::string host = "") {
    if (host.empty()) host = server_->address();
    return said(cat(line, " HTTP/1.1\r\nHost: ", host, "\r\n", headers, "\r\n"));
  }
  std::string logged() const {
    std::ifstream in(log_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string port() const { return server_->address().substr(server_->address().rfind(':')); }
  void expect_refused(const std::string& answer, const std::string& status) {
    EXPECT_THAT(answer, AllOf(StartsWith(cat("HTTP/1.1 ", status, " ")), Not(HasSubstr(kSecret)),
                              HasSubstr("Cache-Control: no-store\r\n")));
    EXPECT_EQ(asked_, 0u) << "who is refused reaches nothing";
  }

  const TempDir dir_;
  const std::filesystem::path file_ = dir_.path() / "token";
  const std::string log_ = (dir_.path() / "log").string();
  const std::shared_ptr<TokenTable> tokens_ = std::make_shared<TokenTable>(file_, own_user_name());
  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  std::optional<SocketNetwork> network_;
  std::optional<HttpServer> server_;
  size_t asked_ = 0;
};

TEST_F(HttpServerTest, WithTheTokenBrowsersAreAnsweredAndToldToKeepNothing) {
  for (const std::string& answer :
       {ask("GET /data", bearer()), ask(cat("GET /?token=", own()), ""),
        ask(cat("GET /?a=b&token=", own(), "&c"), ""), ask("GET /", bearer()),
        ask("GET /data", bearer(), cat("LocalHost", port())),
        ask("GET /data", cat(bearer(), "Origin: http://", server_->address(), "\r\n")),
        ask("GET /data", cat(bearer(), "Origin: http://localhost", port(), "\r\n"))}) {
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr(kSecret)));
    for (const char* header :
         {"Cache-Control: no-store", "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
          "Referrer-Policy: no-referrer", "Cross-Origin-Resource-Policy: same-origin",
          "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
          "Connection: close"})
      EXPECT_THAT(answer, HasSubstr(cat(header, "\r\n")));
  }
  EXPECT_EQ(asked_, 7u);
  EXPECT_EQ(logged(), "");
}

TEST_F(HttpServerTest, WithoutTheTokenNothingIsServed) {
  std::string close = own();
  close.back() = close.back() == '0' ? '1' : '0';
  for (const char* line : {"GET /", "GET /data", "GET /../etc/passwd", "POST /", "GET /none",
                           "GET /?token=", "GET /?token", "OPTIONS /data", "HEAD /"}) {
    for (const std::string& headers :
         {std::string(), cat("Authorization: Basic ", own(), "\r\n"),
          cat("Authorization: Bearer ", close, "\r\n"), cat("Cookie: token=", own(), "\r\n"),
          cat("Authorization: Bearer ", own(), own(), "\r\n")}) {
      expect_refused(ask(line, headers), "401");
    }
  }
  // A token in the query opens only the page "/", and only if the query is exact.
  expect_refused(ask(cat("GET /data?token=", own()), ""), "401");
  expect_refused(ask(cat("GET /?token=", close), ""), "401");
  expect_refused(ask(cat("GET /?Token=", own()), ""), "401");
  expect_refused(ask(cat("GET //?token=", own()), ""), "401");
  expect_refused(ask(cat("GET /?token=%zz", own()), ""), "401");
  EXPECT_THAT(logged(),
              AllOf(HasSubstr("a request for page was refused"), HasSubstr("it shows no token"),
                    Not(HasSubstr(close)), Not(HasSubstr(own()))));
}

TEST_F(HttpServerTest, AnotherOwnersTokenIsNotEnough) {
  const AccessToken bob = AccessToken::random();
  add_owner_token(file_, {"bob", hash_of(bob)});
  expect_refused(ask(cat("GET /?token=", to_text(bob)), ""), "403");
  expect_refused(ask("GET /data", cat("Authorization: Bearer ", to_text(bob), "\r\n")), "403");
  EXPECT_THAT(logged(), HasSubstr("it is of bob"));
}

TEST_F(HttpServerTest, RequestsFromPagesOfOtherSitesAreRefusedEvenWithTheToken) {
  for (const char* host : {"evil.example", "127.0.0.1", "localhost", "127.0.0.1:1",
                           "evil.example:80", "127.0.0.1.evil.example", "[::1]:80"}) {
    SCOPED_TRACE(host);
    expect_refused(ask("GET /data", bearer(), host), "421");
    expect_refused(ask("GET /data", bearer(), cat(host, port(), ".evil.example")), "421");
    expect_refused(ask(cat("GET /?token=", own()), "", host), "421");
  }
  expect_refused(said(cat("GET /data HTTP/1.1\r\n", bearer(), "\r\n")), "421");
  for (const std::string& origin :
       {cat(kScheme, "evil.example"), std::string("null"), cat(kScheme, "localhost"),
        cat("https://", server_->address()), cat(kScheme, "evil.example", port()),
        cat("http://", server_->address(), ".evil.example")}) {
    SCOPED_TRACE(origin);
    const std::string answer = ask("GET /data", cat(bearer(), "Origin: ", origin, "\r\n"));
    expect_refused(answer, "403");
    EXPECT_THAT(answer, Not(HasSubstr("Access-Control")));
  }
  EXPECT_THAT(logged(), AllOf(HasSubstr("it is for the host \"evil.example"),
                              HasSubstr("it comes from a page of \"null"), Not(HasSubstr(own()))));
}

TEST_F(HttpServerTest, PathsAreComparedWithoutDecodingThem) {
  for (const char* path : {"/../data", "/data/../data", "/%64ata", "/%2e%2e/data", "/data/",
                           "//data", "/data%00", "/data\\", "/..%2fdata", "/./data"}) {
    SCOPED_TRACE(path);
    EXPECT_THAT(ask(cat("GET ", path), bearer()),
                AllOf(StartsWith("HTTP/1.1 404 Not Found\r\n"), Not(HasSubstr(kSecret))));
  }
  EXPECT_THAT(ask(cat("GET /", std::string(50'000, 'a')), bearer()), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("POST /data", bearer()),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET\r\n")));
  EXPECT_THAT(ask("GET /error?x", bearer()),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("page: x: it is not there")));
}

TEST_F(HttpServerTest, MalformedRequestsGetNoDataAndOthersAreStillServed) {
  using std::string_literals::operator""s;
  for (const std::string& text :
       {cat("GET /data\0 HTTP/1.1\r\nHost: "s, server_->address(), "\r\n\r\n"), "nonsense\r\n\r\n"s,
        "GET\r\n\r\n"s, "\0\0\0\0\r\n\r\n"s, "GET / HTTP/1.1\r\n:\r\n\r\n"s,
        cat("GET /", std::string(1 << 20, 'a'), " HTTP/1.1\r\n\r\n")}) {
    EXPECT_THAT(said(text), AllOf(Not(HasSubstr(" 200 ")), Not(HasSubstr(kSecret))));
  }
  EXPECT_EQ(asked_, 0u);
  EXPECT_THAT(ask("GET /data", bearer()), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, ASlowConnectionIsClosedAtItsTimeLimit) {
  start({.connections_max = 4, .time_limit = std::chrono::seconds(2)});
  reactor_->run([&] {
    std::vector<Stream> slow;
    for (size_t i = 0; i < 4; ++i) slow.push_back(connect());
    say(slow[0], "GET /data HTT");  // Half a request.
    say(slow[1], cat("GET /large HTTP/1.1\r\nHost: ", server_->address(), "\r\n", bearer(),
                     "\r\n"));  // Nobody reads the answer.
    Stream more = connect();    // It takes the place of one that has sent no request.
    say(more, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(hear(more), StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(hear(slow[0]), Not(HasSubstr(kSecret)));  // Each connection ends by itself.
    EXPECT_EQ(hear(slow[2]), "");
    EXPECT_LT(hear(slow[1]).size(), size_t{64} << 20);
    EXPECT_EQ(hear(slow[3]), "");
  });
  EXPECT_THAT(ask("GET /data", bearer()), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr(kSecret)));
}

TEST_F(HttpServerTest, AConnectionIsClosedIfAllOthersHaveSentARequest) {
  start({.connections_max = 2, .time_limit = std::chrono::seconds(2)});
  reactor_->run([&] {
    std::vector<Stream> slow;
    const size_t asked_before = asked_;
    for (size_t i = 0; i < 2; ++i) {
      slow.push_back(connect());
      say(slow[i], cat("GET /large HTTP/1.1\r\nHost: ", server_->address(), "\r\n", bearer(),
                       "\r\n"));  // Nobody reads the answer.
    }
    while (asked_ < asked_before + 2)
      WaitQueue().wait_until_ns("for a request to come", reactor_->clock().now_ns() + 1'000'000);
    Stream more = connect();
    EXPECT_EQ(hear(more), "");
    EXPECT_THAT(logged(), HasSubstr("there are too many"));
  });
}

TEST_F(HttpServerTest, ListensOnLoopbackOnly) {
  reactor_->run([&] {
    EXPECT_THAT(error_text_of([&] { HttpServer(*reactor_, *network_, "0.0.0.0:0", {}); }),
                HasSubstr("loopback"));
  });
}

}  // namespace
}  // namespace gangway
