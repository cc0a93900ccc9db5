#include "tools/commands/command.h"

#include "tools/io/number.h"

namespace gangway::tool {

Client ClusterOptions::connect_as(const std::string& name) const {
  return connect(address, {.name = name, .number_name = true, .timeout_ms = timeout_ms});
}

CLI::Option* add_cluster(CLI::App& command, ClusterOptions& to, const char* connect_help) {
  constexpr int64_t kTimeoutMsMax = int64_t{7} * 24 * 3600 * 1000;
  CLI::Option* connect =
      command.add_option("--connect", to.address, connect_help)->capture_default_str();
  command.add_option("--timeout-ms", to.timeout_ms, "how long to try to reach the cluster")
      ->check(whole_number(1, kTimeoutMsMax))
      ->capture_default_str();
  return connect;
}

}  // namespace gangway::tool
