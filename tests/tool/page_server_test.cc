// Answers of the page's server over a real socket. http_server_test has the refusals.
#include "tools/live/page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "protocol/token_file.h"
#include "runtime/fibers/await.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/support/error_of.h"
#include "tools/page/page.h"

namespace gangway::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class PageServerTest : public testing::Test {
 protected:
  PageServerTest() {
    reactor_->run([&] {
      network_.emplace(*reactor_);
      server_.emplace(*reactor_, *network_, "127.0.0.1:0", options());
    });
  }
  ~PageServerTest() noexcept override {
    reactor_->run([&] { server_.reset(); });
  }

  PageServerOptions options() {
    return {.user = own_user_name(),
            .tokens = std::make_shared<TokenTable>(file_, own_user_name()),
            .cluster = [] { return std::string("{\"a cluster\":1}"); },
            .history = [](uint64_t after) { return cat("{\"behind\":", after, "}"); },
            .graph =
                [](const GraphWanted& wanted) {
                  GW_REQUIRE(wanted.program != "none", "graph: there is no program \"none\"");
                  return std::make_shared<const std::string>(
                      cat("{\"graph\":\"", wanted.program, "\",\"plan\":", wanted.plan, "}"));
                },
            .timeline =
                [](const GraphWanted& wanted) {
                  return cat("{\"timeline\":\"", wanted.program, "\",\"plan\":", wanted.plan, "}");
                }};
  }
  std::string own() const { return to_text(read_token_file(file_)); }
  std::string ask(const std::string& line, bool is_shown = true) {
    return reactor_->run([&] {
      Stream stream = network_->connect(server_->address());
      const std::string text =
          cat(line, " HTTP/1.1\r\nHost: ", server_->address(), "\r\n",
              is_shown ? cat("Authorization: Bearer ", own(), "\r\n") : "", "\r\n");
      await(kj::evalNow([&] { return stream->write(text.data(), text.size()); }));
      return await(
          stream->readAllText().then([](kj::String all) { return std::string(all.cStr()); }));
    });
  }
  static std::string body_of(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }

  const TempDir dir_;
  const std::filesystem::path file_ = dir_.path() / "token";
  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  std::optional<SocketNetwork> network_;
  std::optional<PageServer> server_;
};

TEST_F(PageServerTest, ThePageMayConnectOnlyToItsOwnServer) {
  const std::string answer = ask(cat("GET /?token=", own()), false);
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                            HasSubstr("Content-Type: text/html; charset=utf-8\r\n")));
  EXPECT_EQ(body_of(answer), served_page_html());
  EXPECT_THAT(body_of(answer), Not(HasSubstr(own())));
  // The header repeats the page's own policy, and says who may frame the page.
  EXPECT_THAT(served_page_policy(),
              AllOf(StartsWith("default-src 'none'; script-src 'sha256-"),
                    HasSubstr("connect-src 'self'"), Not(HasSubstr("unsafe"))));
  EXPECT_THAT(answer, HasSubstr(cat("Content-Security-Policy: ", served_page_policy(),
                                    "; frame-ancestors 'none'\r\n")));
  EXPECT_THAT(body_of(answer), HasSubstr(cat("content=\"", served_page_policy(), "\"")));
  // A page in a file connects to no server.
  EXPECT_THAT(page_html("{}"), Not(HasSubstr("connect-src")));
}

TEST_F(PageServerTest, GivesDataAsJson) {
  EXPECT_THAT(ask("GET /api/cluster"), AllOf(HasSubstr("Content-Type: application/json\r\n"),
                                             HasSubstr("\r\n\r\n{\"a cluster\":1}")));
  EXPECT_EQ(body_of(ask("GET /api/history")), "{\"behind\":0}");
  EXPECT_EQ(body_of(ask("GET /api/history?after=12")), "{\"behind\":12}");
  EXPECT_EQ(body_of(ask("GET /api/graph?program=ann%2Fa%20b&plan=7")),
            "{\"graph\":\"ann/a b\",\"plan\":7}");
  EXPECT_EQ(body_of(ask("GET /api/timeline?program=ann%2Fa%20b&plan=7")),
            "{\"timeline\":\"ann/a b\",\"plan\":7}");
}

TEST_F(PageServerTest, InvalidRequestsAreRefusedWithTheReason) {
  for (const char* number : {"-1", "x", "1x", "99999999999999999999999"}) {
    EXPECT_THAT(ask(cat("GET /api/history?after=", number)),
                AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("after: expected a number")));
  }
  EXPECT_THAT(ask("GET /api/graph?program=none"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("there is no program \"none\"")));
  for (const char* path :
       {"/api", "/api/", "/api/cluster/", "/api/../", "/index.html", "/api/%67raph"})
    EXPECT_THAT(ask(cat("GET ", path)), StartsWith("HTTP/1.1 404 ")) << path;
  for (const char* path : {"/", "/api/cluster", "/api/history", "/api/graph", "/api/timeline"})
    EXPECT_THAT(ask(cat("POST ", path)), StartsWith("HTTP/1.1 405 ")) << path;
}

TEST_F(PageServerTest, AddressesThatNoBrowserOpensAreRefused) {
  reactor_->run([&] {
    EXPECT_THAT(error_text_of([&] { PageServer(*reactor_, *network_, "unix:@page", options()); }),
                HasSubstr("page: unix:@page: expected host:port, which a browser opens"));
  });
}

}  // namespace
}  // namespace gangway::tool
