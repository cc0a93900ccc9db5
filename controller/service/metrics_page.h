// The controller's metrics as Prometheus reads them: what it counts, and the hosts and programs of
// this moment, with the numbers that `gangway ps` and `gangway top` show.
//
// A program has its series while it lives: whose has ended has none. What a host counted is shown
// until its name is forgotten (controller/resources/host_names.h), what it is only while it is
// there.
//
// Threads: the reactor's thread. Cost: O(hosts + programs) and a page of text.
#pragma once

#include <string>

#include "controller/service/controller.h"

namespace gangway {

std::string metrics_page(Controller& controller);

}  // namespace gangway
