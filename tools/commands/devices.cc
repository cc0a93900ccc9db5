// `gangway devices`: the devices of this machine, or of a running cluster.
#include <unistd.h>

#include <fstream>

#include "client/client.h"
#include "executor/devices/cuda/driver/loader.h"
#include "runtime/base/clock_ns.h"
#include "runtime/base/printable.h"
#include "runtime/base/units.h"
#include "runtime/os/thread.h"
#include "runtime/tls/certificate.h"
#include "tools/commands/command.h"
#include "tools/commands/status_views.h"
#include "tools/io/json.h"
#include "tools/io/number.h"
#include "tools/io/output.h"
#include "tools/io/table.h"

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
  std::vector<Found> all = {
      {"cpu", true, cat(processor(), ", ", available_cores(), " cores, ", format_bytes(memory))},
      {"sim", true, "virtual time, any number"}};
  const cuda::FoundGpus found = cuda::find_gpus();
  for (const cuda::GpuInfo& gpu : found.gpus) {
    all.push_back({"cuda", true,
                   cat(gpu.name, ", ", gpu.multiprocessors, " multiprocessors, ",
                       format_bytes(static_cast<uint64_t>(gpu.memory_bytes)))});
  }
  if (found.gpus.empty()) all.push_back({"cuda", false, found.why_none});
  return all;
}

int show(const std::vector<Found>& devices, bool json) {
  std::vector<JsonObject> rows;
  std::vector<std::string> lines;
  for (const Found& found : devices) {
    rows.push_back({{"kind", found.kind}, {"usable", found.usable}, {"detail", found.detail}});
    lines.push_back(cat(padded(found.kind, 6), found.usable ? "yes  " : "no   ", found.detail));
  }
  print_lines(json ? std::vector{to_json(rows)} : lines);
  return 0;
}

std::string condition(const HostStatus& host) {
  std::string text = host.is_drained ? ", drained" : host.is_draining ? ", draining" : "";
  if (host.suspect_ms > 0)
    text +=
        cat(", suspect: it has said nothing for ", format_duration_ns(host.suspect_ms * 1'000'000));
  return text;
}

// The warning that a certificate ends within a month, as a line. None: there is no reason for one.
std::vector<std::string> certificate_lines(const std::string& whose, int64_t ends_s) {
  if (ends_s == 0) return {};
  const std::string ends = end_warning(ends_s, clock_ns(CLOCK_REALTIME) / 1'000'000'000);
  if (ends.empty()) return {};
  return {cat("  ", whose, " certificate ", ends, ": make another with `gangway cert host`")};
}

int show(const ClusterStatus& status, bool json) {
  if (json) {
    print_line(to_json(host_rows(status.hosts)));
    return 0;
  }
  print_lines(certificate_lines("the controller's", status.certificate_ends_s));
  for (const HostStatus& host : status.hosts) {
    print(cat(printable(host.name), ": island ", printable(host.island), ", ", host.devices, " ",
              host.kind, " devices of ", format_bytes(static_cast<uint64_t>(host.memory_bytes)),
              ", ", format_bytes(static_cast<uint64_t>(host.memory_used)), " reserved, ",
              host.runs_done, " runs done", condition(host), "\n", host.text));
    for (const std::string& stuck : host.stuck) print_line(cat("  ", stuck));
    print_lines(certificate_lines("its", host.certificate_ends_s));
  }
  return 0;
}

struct DevicesCommand {
  bool json = false, metrics = false;
  ClusterOptions cluster{.address = ""};
};

int show_devices(const DevicesCommand& command) {
  const ClusterOptions& cluster = command.cluster;
  if (cluster.address.empty()) return show(find_devices(), command.json);
  const ClusterStatus status =
      connect(cluster.address, {.timeout_ms = cluster.timeout_ms}).status();
  if (!command.metrics) return show(status, command.json);
  print(status.metrics);
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("devices", "Show what there is to compute on");
  const auto options = add_options(*command, chosen, show_devices);
  auto* json = command->add_flag("--json", options->json, "as JSON");
  auto* connect = add_cluster(*command, options->cluster, "of a running controller's executors");
  command
      ->add_flag("--metrics", options->metrics,
                 "the controller's counters instead, as Prometheus reads them")
      ->needs(connect)
      ->excludes(json);
}

}  // namespace gangway::tool
