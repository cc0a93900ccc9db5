// What a cluster says of itself (Client::status), as tables for people and as JSON for programs.
//
// Threads: pure functions.
#pragma once

#include <vector>

#include "client/client.h"
#include "tools/commands/json.h"
#include "tools/io/table.h"

namespace gangway::tool {

// Without the one that asks. Columns that do not fit are left out from the back of this order:
// PROGRAM, OWNER, STEP, LOSS, TOKENS/S, USED and MEMORY, which stay; WEIGHT, ID, PRIORITY, DEVICES,
// IN FLIGHT, WAITING, DONE, ON, WAITS FOR; that one last where any waits.
Table program_table(const std::vector<ProgramStatus>& programs);
std::vector<JsonObject> program_rows(const std::vector<ProgramStatus>& programs);

// The hosts, and who runs on each. From the back: HOST, DEVICES and MEMORY, which stay; RUNNING,
// STATE, DONE, ISLAND.
Table host_table(const ClusterStatus& status);
std::vector<JsonObject> host_rows(const std::vector<HostStatus>& hosts);

}  // namespace gangway::tool
