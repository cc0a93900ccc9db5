#include "controller/service/metrics_server.h"

namespace gangway {
namespace {

HttpAnswer metrics_answer(const HttpRequest& request, const std::function<std::string()>& page) {
  if (request.path != "/metrics")
    return plain_answer(404, "Not Found", "there is nothing here but /metrics\n");
  if (!request.is_get)
    return plain_answer(405, "Method Not Allowed", "/metrics: expected the method GET\n");
  return {.body = std::make_shared<const std::string>(page()),
          .type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace

MetricsServer::MetricsServer(Reactor& reactor, Network& network, const std::string& address,
                             MetricsServerOptions options)
    : http_(reactor, network, address,
            {.what = "metrics",
             .user = std::move(options.user),
             .tokens = std::move(options.tokens),
             .answer = [page = std::move(options.page)](
                           const HttpRequest& request) { return metrics_answer(request, page); },
             .connections_max = kConnectionsMax,
             .is_ready = std::move(options.is_ready),
             .log = std::move(options.log)}) {}

}  // namespace gangway
