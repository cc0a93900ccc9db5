// Reads the controller's metrics over a real socket.
#include "controller/service/metrics_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/service/service.h"
#include "protocol/token_file.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/support/error_of.h"
#include "tests/support/net/say_and_hear.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class MetricsServerTest : public testing::Test {
 protected:
  MetricsServerTest() {
    reactor_->run([&] {
      network_.emplace(*reactor_);
      service_ = std::make_unique<ControllerService>(
          *reactor_, *network_,
          ControllerServiceOptions{
              .controller = {.log = Logs({.levels = "warn", .file = log_}).module("controller")},
              .tokens = std::make_shared<TokenTable>(file_, own_user_name()),
              .metrics_address = "127.0.0.1:0"});
    });
  }
  ~MetricsServerTest() noexcept override {
    reactor_->run([&] { service_.reset(); });
  }

  std::string own() const { return to_text(read_token_file(file_)); }
  Stream connect() { return network_->connect(service_->metrics_address()); }
  std::string ask(const std::string& line, const std::string& headers = "") {
    return reactor_->run([&] {
      Stream stream = connect();
      say(stream, cat(line, " HTTP/1.1\r\nHost: here\r\n", headers, "\r\n"));
      return hear_whole(stream);
    });
  }
  static std::string showing(const std::string& token) {
    return cat("Authorization: Bearer ", token, "\r\n");
  }
  std::string logged() const {
    std::ifstream in(log_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static size_t lines_in(const std::string& text) {
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  const TempDir dir_;
  const std::filesystem::path file_ = dir_.path() / "token";
  const std::string log_ = (dir_.path() / "log").string();
  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  std::optional<SocketNetwork> network_;
  std::unique_ptr<ControllerService> service_;
};

TEST_F(MetricsServerTest, TheTokenOfWhoRunsTheControllerOpensThePage) {
  std::ifstream in(file_);
  std::string as_in_the_file;  // Prometheus reads the token from the file too.
  std::getline(in, as_in_the_file);
  for (const std::string& headers :
       {showing(as_in_the_file), "authorization: bearer  " + own() + "\r\n"}) {
    const std::string answer = ask("GET /metrics", headers);
    EXPECT_THAT(answer,
                AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Connection: close"),
                      HasSubstr("Content-Type: text/plain; version=0.0.4"),
                      HasSubstr("\ngangway_hosts 0\n"), HasSubstr("\ngangway_programs 0\n")));
  }
  EXPECT_THAT(ask("GET /metrics?x=1", showing(own())), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(logged(), "");
}

TEST_F(MetricsServerTest, RequestsWithoutTheTokenGetOnlyARefusal) {
  std::string close = own();
  close.back() = close.back() == '0' ? '1' : '0';
  size_t refused = 0;
  for (const char* path : {"GET /metrics", "GET /other", "POST /metrics"}) {
    for (const std::string& headers :
         {std::string(), std::string("Authorization: Basic abcd\r\n"), showing(""), showing("zz"),
          showing(std::string(64, '0')), showing(close), showing(own() + "0")}) {
      const std::string answer = ask(path, headers);
      EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 401 Unauthorized\r\n"),
                                HasSubstr("WWW-Authenticate: Bearer"), Not(HasSubstr("gangway_"))))
          << path << " " << headers;
      EXPECT_EQ(lines_in(logged()), ++refused);
    }
  }
  EXPECT_THAT(logged(),
              AllOf(HasSubstr("a request for metrics was refused"), HasSubstr("it shows no token"),
                    HasSubstr("127.0.0.1"), HasSubstr("nobody has the token that it shows"),
                    Not(HasSubstr(close))));
}

TEST_F(MetricsServerTest, AnotherOwnersTokenIsNotEnough) {
  const AccessToken token = AccessToken::random();
  add_owner_token(file_, {"bob", hash_of(token)});
  EXPECT_THAT(ask("GET /metrics", showing(to_text(token))),
              AllOf(StartsWith("HTTP/1.1 403 Forbidden\r\n"), Not(HasSubstr("gangway_"))));
  EXPECT_THAT(logged(), HasSubstr("it is of bob"));
  EXPECT_EQ(lines_in(logged()), 1u);
}

TEST_F(MetricsServerTest, OtherPathsAndMethodsAreNotServed) {
  EXPECT_THAT(ask("GET /", showing(own())), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(ask("GET /metrics/x", showing(own())), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(
      ask("DELETE /metrics", showing(own())),
      AllOf(StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"), HasSubstr("Allow: GET\r\n")));
}

TEST_F(MetricsServerTest, MalformedAndOversizedRequestsAreRefusedAndOthersAreStillServed) {
  EXPECT_THAT(ask("nonsense"), StartsWith("HTTP/1.1 501 Not Implemented\r\n"));
  EXPECT_THAT(ask("GET"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET /metrics", cat("X: ", std::string(60'000, 'x'), "\r\n", showing(own()))),
              StartsWith("HTTP/1.1 200 "));
  // The server does not read past the bound, so the connection may break before the answer comes.
  const auto asked = [&] {
    return ask("GET /metrics", cat("X: ", std::string(1 << 20, 'x'), "\r\n", showing(own())));
  };
  try {
    EXPECT_THAT(asked(), StartsWith("HTTP/1.1 4"));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.message();
  }
  EXPECT_THAT(logged(), HasSubstr("headers too large"));
  EXPECT_EQ(lines_in(logged()), 1u) << logged();
  EXPECT_THAT(ask("GET /metrics", showing(own())), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, SilentConnectionsKeepNobodyOut) {
  reactor_->run([&] {
    std::vector<Stream> silent;
    for (size_t i = 0; i < MetricsServer::kConnectionsMax; ++i) silent.push_back(connect());
    Stream more = connect();
    EXPECT_EQ(hear_whole(silent[0]), "");  // Its place is taken.
    for (Stream* const one : {&more, &silent[1]}) {
      say(*one, cat("GET /metrics HTTP/1.1\r\nHost: h\r\n", showing(own()), "\r\n"));
      EXPECT_THAT(hear_whole(*one), StartsWith("HTTP/1.1 200 "));
    }
    EXPECT_THAT(ask("GET /metrics", showing(own())), StartsWith("HTTP/1.1 200 "));
  });
}

TEST_F(MetricsServerTest, ListensOnLoopbackOnly) {
  reactor_->run([&] {
    EXPECT_THAT(error_text_of([&] { MetricsServer(*reactor_, *network_, "0.0.0.0:0", {}); }),
                HasSubstr("loopback"));
  });
}

}  // namespace
}  // namespace gangway
