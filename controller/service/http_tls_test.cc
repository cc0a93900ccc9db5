// Pages over HTTPS: what a browser, Prometheus or a kubelet gets, which carry no certificate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "controller/service/http_server.h"
#include "protocol/token_file.h"
#include "runtime/os/user.h"
#include "tests/support/net/bare_dial.h"
#include "tests/support/net/issued_folders.h"
#include "tests/support/net/say_and_hear.h"

namespace gangway::http_tls_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kSecret[] = "what only the owner may read";

class HttpTlsTest : public testing::Test {
 protected:
  HttpTlsTest() {
    folders_.issue("host", {.kind = CertifiedKind::kHost, .name = "node7"});
    network_.emplace(*reactor_, folders_.in("host"));
    reactor_->run([&] {
      server_.emplace(*reactor_, *network_, "0.0.0.0:0",
                      HttpServerOptions{.what = "page",
                                        .user = own_user_name(),
                                        .tokens = tokens_,
                                        .answer = [this](const HttpRequest&) { return answer(); },
                                        .for_browsers = true,
                                        .is_ready = [this] { return is_ready_; },
                                        .log = Logs({.levels = "warn", .file = log_}).module("c")});
    });
  }
  ~HttpTlsTest() noexcept override {
    reactor_->run([&] { server_.reset(); });
  }

  HttpAnswer answer() {
    ++asked_;
    return {.body =
                std::make_shared<const std::string>(kSecret + std::string(100'000, 'x') + "end")};
  }
  std::string address() const {
    const std::string& bound = server_->address();
    return cat("127.0.0.1", bound.substr(bound.rfind(':')));
  }
  // Sends these bytes, and returns all that comes until the connection ends.
  static std::string said(Stream stream, const std::string& text) {
    say(stream, text);
    return hear(stream);
  }
  std::string ask(const std::string& line, const std::string& headers = "",
                  const std::string& host = "node7.lan:7042") {
    return reactor_->run([&] {
      return said(dial_without_certificate(folders_.in("host"), plain_.connect(address())),
                  cat(line, " HTTP/1.1\r\nHost: ", host, "\r\n", headers, "\r\n"));
    });
  }
  std::string bearer() const {
    return cat("Authorization: Bearer ", to_text(read_token_file(file_)), "\r\n");
  }
  std::string logged() const {
    std::ifstream in(log_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const IssuedFolders folders_;
  const std::filesystem::path file_ = folders_.in("token");
  const std::string log_ = folders_.in("log");
  const std::shared_ptr<TokenTable> tokens_ = std::make_shared<TokenTable>(file_, own_user_name());
  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  SocketNetwork plain_{*reactor_};
  std::optional<SocketNetwork> network_;
  std::optional<HttpServer> server_;
  bool is_ready_ = true;
  size_t asked_ = 0;
};

TEST_F(HttpTlsTest, ATokenOpensThePageUnderAnyNameOfTheHostAndTheAnswerIsWhole) {
  for (const std::string& answer :
       {ask("GET /", bearer()), ask("GET /", bearer(), "10.0.0.7:7042"),
        ask("GET /", cat(bearer(), "Origin: https://", "node7.lan:7042\r\n"))}) {
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr(kSecret)));
    EXPECT_TRUE(answer.ends_with("xend"));
  }
}

TEST_F(HttpTlsTest, WithoutATokenOrFromAnotherSiteNothingIsServed) {
  EXPECT_THAT(ask("GET /"), StartsWith("HTTP/1.1 401 "));
  const std::string other = cat("Origin: https://", "evil.example\r\n");
  EXPECT_THAT(ask("GET /", bearer() + other), StartsWith("HTTP/1.1 403 "));
  EXPECT_EQ(asked_, 0u);
}

TEST_F(HttpTlsTest, HealthIsToldToAnybodyAndNothingElseIs) {
  for (const char* path : {"GET /healthz", "GET /readyz"})
    EXPECT_THAT(ask(path), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\r\n\r\nok\n")));
  is_ready_ = false;
  EXPECT_THAT(ask("GET /healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("GET /readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("\r\n\r\nending\n")));
  for (const char* line : {"POST /healthz", "GET /healthz/", "GET /healthz/..", "GET //readyz"})
    EXPECT_THAT(ask(line), StartsWith("HTTP/1.1 401 ")) << line;
  EXPECT_EQ(asked_, 0u);
}

TEST_F(HttpTlsTest, PlainHttpIsRefusedWithOneLineOnBothSides) {
  for (const char* path : {"/", "/healthz"}) {
    const std::string answer = reactor_->run([&] {
      return said(plain_.connect(address()),
                  cat("GET ", path, " HTTP/1.1\r\nHost: node7\r\n", bearer(), "\r\n"));
    });
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 400 "), Not(HasSubstr(kSecret)),
                              HasSubstr("page: expected https, got plain HTTP\n")));
  }
  EXPECT_THAT(logged(), HasSubstr("it does not speak TLS"));
  EXPECT_EQ(asked_, 0u);
}

}  // namespace
}  // namespace gangway::http_tls_test
