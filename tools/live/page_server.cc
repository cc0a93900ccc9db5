#include "tools/live/page_server.h"

#include <charconv>

#include "runtime/base/error.h"
#include "tools/page/page.h"

namespace gangway::tool {
namespace {

HttpAnswer json_answer(std::shared_ptr<const std::string> body) {
  return {.body = std::move(body), .type = "application/json"};
}

HttpAnswer json_answer(std::string body) {
  return json_answer(std::make_shared<const std::string>(std::move(body)));
}

// Returns 0 if the query does not have the number.
uint64_t number_in(const std::string& query, const char* name) {
  const std::string text = query_value(query, name);
  if (text.empty()) return 0;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  GW_REQUIRE(error == std::errc() && end == text.data() + text.size(), "page: ", name,
             ": expected a number of 0 or more");
  return number;
}

GraphWanted wanted_in(const std::string& query) {
  return {.program = query_value(query, "program"), .plan = number_in(query, "plan")};
}

class Pages {
 public:
  explicit Pages(PageServerOptions options)
      : options_(std::move(options)),
        page_(std::make_shared<const std::string>(served_page_html())),
        policy_(cat(served_page_policy(), "; frame-ancestors 'none'")) {}

  HttpAnswer answer(const HttpRequest& request) const {
    const std::string& path = request.path;
    const bool is_there = path == "/" || path == "/api/cluster" || path == "/api/history" ||
                          path == "/api/graph" || path == "/api/timeline";
    if (!is_there) return plain_answer(404, "Not Found", "page: there is nothing of this name\n");
    if (!request.is_get)
      return plain_answer(405, "Method Not Allowed", "page: expected the method GET\n");
    if (path == "/api/cluster") return json_answer(options_.cluster());
    if (path == "/api/history")
      return json_answer(options_.history(number_in(request.query, "after")));
    if (path == "/api/graph") return json_answer(options_.graph(wanted_in(request.query)));
    if (path == "/api/timeline") return json_answer(options_.timeline(wanted_in(request.query)));
    return {.body = page_,
            .type = "text/html; charset=utf-8",
            .headers = {{"Content-Security-Policy", policy_}}};
  }

 private:
  const PageServerOptions options_;
  const std::shared_ptr<const std::string> page_;
  const std::string policy_;
};

HttpServerOptions served(PageServerOptions options, const std::string& address) {
  GW_REQUIRE(!address.starts_with("unix:"), "page: ", address,
             ": expected host:port, which a browser opens, got a Unix socket");
  HttpServerOptions http{.what = "page",
                         .user = options.user,
                         .tokens = options.tokens,
                         .answer = {},
                         .for_browsers = true,
                         .connections_max = PageServer::kConnectionsMax,
                         .is_ready = options.is_ready,
                         .time_limit = options.time_limit,
                         .log = options.log};
  const auto pages = std::make_shared<const Pages>(std::move(options));
  http.answer = [pages](const HttpRequest& request) { return pages->answer(request); };
  return http;
}

}  // namespace

PageServer::PageServer(Reactor& reactor, Network& network, const std::string& address,
                       PageServerOptions options)
    : http_(reactor, network, address, served(std::move(options), address)) {}

}  // namespace gangway::tool
