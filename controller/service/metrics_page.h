// The controller's metrics in Prometheus' format: its counters, and the present hosts and programs
// with the numbers that `gangway ps` and `gangway top` show.
//
// A program has series until it ends. The counters of a host are shown until its name is forgotten
// (controller/hosts/host_names.h), its gauges only while it is there.
//
// Threads: the reactor's thread. Cost: O(hosts + programs) and a page of text.
#pragma once

#include <optional>
#include <string>

#include "controller/controller.h"
#include "runtime/tls/certificate.h"

namespace gangway {

// `reactor`: the controller's. `own`: the controller's certificate; none: without TLS.
std::string metrics_page(Controller& controller, const Reactor& reactor,
                         const std::optional<Certificate>& own = {});

}  // namespace gangway
