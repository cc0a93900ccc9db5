// `gangway devices`: what this machine, or a running cluster, has to compute on.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "client/client.h"
#include "runtime/base/units.h"
#include "runtime/thread.h"
#include "tools/commands/command.h"

namespace gangway::tool {
namespace {

struct Found {
  std::string kind;
  bool usable = false;
  std::string detail;
};

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::vector<Found> find_devices() {
  const auto memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const bool driver = access("/dev/nvidiactl", F_OK) == 0;
  return {
      {"cpu", true, cat(processor(), ", ", available_cores(), " cores, ", format_bytes(memory))},
      {"sim", true, "virtual time, any number"},
      {"cuda", false,
       driver ? "this build has no CUDA devices" : "no NVIDIA driver on this machine"}};
}

int show(const std::vector<Found>& devices, bool json) {
  if (json) std::printf("[");
  for (size_t i = 0; i < devices.size(); ++i) {
    const Found& found = devices[i];
    if (json) {
      std::printf("%s{\"kind\": %s, \"usable\": %s, \"detail\": %s}", i == 0 ? "" : ", ",
                  quoted(found.kind).c_str(), found.usable ? "true" : "false",
                  quoted(found.detail).c_str());
    } else {
      std::printf("%-5s %-4s %s\n", found.kind.c_str(), found.usable ? "yes" : "no",
                  found.detail.c_str());
    }
  }
  if (json) std::printf("]\n");
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("devices", "Show what there is to compute on");
  auto json = std::make_shared<bool>(false);
  auto address = std::make_shared<std::string>();
  command->add_flag("--json", *json, "as JSON");
  command->add_option("--connect", *address, "of a running controller's executors");
  command->callback([&chosen, json, address] {
    chosen = [json, address] {
      if (address->empty()) return show(find_devices(), *json);
      const std::string text = connect(*address).describe_devices();
      std::printf("%s\n", *json ? quoted(text).c_str() : text.c_str());
      return 0;
    };
  });
}

}  // namespace gangway::tool
