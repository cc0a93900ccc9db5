// The status of a cluster (Client::status), as tables for people and as JSON for programs.
//
// Threads: pure functions.
#pragma once

#include <vector>

#include "client/client.h"
#include "tools/io/json.h"
#include "tools/io/table.h"

namespace gangway::tool {

// Leaves out the program that asks. Columns that do not fit are left out, beginning at the end of
// this list: PROGRAM, OWNER, STEP, LOSS, TOKENS/S, USED and MEMORY, which always stay; WEIGHT, ID,
// PRIORITY, DEVICES, IN FLIGHT, WAITING, DONE, ON, WAITS FOR. The table has the last one only if a
// program waits.
Table program_table(const std::vector<ProgramStatus>& programs);
std::vector<JsonObject> program_rows(const std::vector<ProgramStatus>& programs);

// The hosts, and the programs on each. Columns that do not fit are left out, beginning at the end
// of this list: HOST, DEVICES and MEMORY, which always stay; RUNNING, STATE, DONE, ISLAND.
Table host_table(const ClusterStatus& status);
std::vector<JsonObject> host_rows(const std::vector<HostStatus>& hosts);

}  // namespace gangway::tool
