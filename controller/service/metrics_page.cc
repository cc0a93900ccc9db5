#include "controller/service/metrics_page.h"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gangway {
namespace {

MetricLabels labels_of(const ProgramCounts& program) {
  return {{"owner", program.owner}, {"program", program.name}};
}

const double* reported(const ProgramCounts& program, const char* name) {
  const auto found = std::ranges::find(program.reported, name, &ReportedNumber::name);
  return found == program.reported.end() ? nullptr : &found->value;
}

// `value` returns a program's number, or a pointer to it that is null if the program has none.
template <class Value>
void add_programs(MetricsPage& page, const std::vector<ProgramCounts>& programs, const char* name,
                  const char* help, const Value& value) {
  page.begin(
      name, help,
      std::string_view(name).ends_with("_total") ? MetricKind::kCounter : MetricKind::kGauge);
  for (const ProgramCounts& program : programs) {
    const auto number = value(program);
    if constexpr (std::is_pointer_v<decltype(number)>) {
      if (number != nullptr) page.add(labels_of(program), *number);
    } else {
      page.add(labels_of(program), number);
    }
  }
}

void add_what_is_reported(MetricsPage& page, const std::vector<ProgramCounts>& programs) {
  const auto said = [&](const char* name, const char* help, const char* number) {
    add_programs(page, programs, name, help,
                 [number](const ProgramCounts& program) { return reported(program, number); });
  };
  said("gangway_program_step", "The step that a program said last", "step");
  said("gangway_program_loss", "The loss that a program said last", "loss");
  said("gangway_program_tokens_per_second", "What a program said last", "tokens_per_s");
  page.begin("gangway_program_reported", "Any other number that a program said last",
             MetricKind::kGauge);
  for (const ProgramCounts& program : programs) {
    for (const ReportedNumber& number : program.reported) {
      if (number.name == "step" || number.name == "loss" || number.name == "tokens_per_s") continue;
      MetricLabels labels = labels_of(program);
      labels["name"] = number.name;
      page.add(labels, number.value);
    }
  }
}

void add_programs(MetricsPage& page, const std::vector<ProgramCounts>& programs) {
  using P = const ProgramCounts&;
  const auto add = [&](const char* name, const char* help, const auto& value) {
    add_programs(page, programs, name, help, value);
  };
  page.begin("gangway_programs", "Programs that there are", MetricKind::kGauge);
  page.add({}, uint64_t{programs.size()});
  add("gangway_program_weight", "Its part of devices that it shares, against others' weights",
      [](P program) { return program.share.weight; });
  add("gangway_program_priority", "Its priority",
      [](P program) { return double{static_cast<double>(program.share.priority)}; });
  add("gangway_program_share", "Part of its devices' time that it had in the last second, 0 to 1",
      [](P program) { return program.used; });
  add("gangway_program_memory_bytes", "Reserved for it on all devices together",
      [](P program) { return static_cast<double>(program.memory_bytes); });
  add("gangway_program_devices", "Devices in its slices",
      [](P program) { return uint64_t{program.devices}; });
  add("gangway_program_runs_waiting", "Its runs that wait",
      [](P program) { return program.runs_waiting; });
  add("gangway_program_runs_in_flight", "Its runs that are under way",
      [](P program) { return program.runs_in_flight; });
  add("gangway_program_runs_done_total", "Its runs that ended",
      [](P program) { return program.runs_done; });
  add("gangway_program_detached", "1: it goes on without a client",
      [](P program) { return uint64_t{program.detached}; });
  add("gangway_program_waits_for_slice", "1: it waits for devices",
      [](P program) { return uint64_t{!program.waits_for.empty()}; });
  page.begin("gangway_program_on_host", "1: a slice of the program lies on the host",
             MetricKind::kGauge);
  for (const ProgramCounts& program : programs) {
    for (const std::string& host : program.hosts) {
      MetricLabels labels = labels_of(program);
      labels["host"] = host;
      page.add(labels, uint64_t{1});
    }
  }
  add_what_is_reported(page, programs);
}

void add_hosts(MetricsPage& page, const HostTable& table) {
  std::vector<const HostRecord*> hosts;
  for (const auto& [id, host] : table.all()) {
    if (!host.lost) hosts.push_back(&host);
  }
  const auto add = [&](const char* name, const char* help, const auto& value) {
    page.begin(name, help, MetricKind::kGauge);
    for (const HostRecord* host : hosts) page.add({{"host", host->info.name}}, value(*host));
  };
  using H = const HostRecord&;
  page.begin("gangway_hosts", "Hosts that are there", MetricKind::kGauge);
  page.add({}, uint64_t{hosts.size()});
  page.begin("gangway_hosts_suspect", "Hosts that say nothing", MetricKind::kGauge);
  page.add({}, static_cast<uint64_t>(std::ranges::count(hosts, true, &HostRecord::suspect)));
  page.begin("gangway_host_devices", "Devices of a host", MetricKind::kGauge);
  for (const HostRecord* host : hosts) {
    page.add({{"host", host->info.name}, {"island", host->info.island}, {"kind", host->info.kind}},
             uint64_t{host->info.devices});
  }
  add("gangway_host_device_memory_bytes", "Memory of each device of a host",
      [](H host) { return static_cast<double>(host.info.memory_bytes); });
  add("gangway_host_reserved_bytes", "Reserved on a host's fullest device",
      [](H host) { return static_cast<double>(host.reserved.max()); });
  add("gangway_host_stuck_devices", "Devices of a host whose work does not go on",
      [](H host) { return uint64_t{host.stuck.size()}; });
  add("gangway_host_draining", "1: a host gets no new slices",
      [&](H host) { return uint64_t{!table.takes_slices(host)}; });
}

void add_reactors(MetricsPage& page, const Reactor& reactor, const HostTable& hosts) {
  page.begin("gangway_reactor_longest_ms",
             "For how long the process's reactor was at most held up by what it ran",
             MetricKind::kGauge);
  page.add({{"process", "controller"}},
           static_cast<uint64_t>(reactor.longest_stretch_ns()) / 1'000'000);
  for (const auto& [id, host] : hosts.all()) {
    if (!host.lost)
      page.add({{"process", "executor"}, {"host", host.info.name}},
               uint64_t{host.reactor_longest_ms});
  }
}

void add_certificates(MetricsPage& page, const HostTable& hosts,
                      const std::optional<Certificate>& own) {
  page.begin("gangway_certificate_end_seconds", "When a process's certificate ends, since 1970",
             MetricKind::kGauge);
  if (own) page.add({{"process", "controller"}}, static_cast<uint64_t>(own->validity.ends_s));
  for (const auto& [id, host] : hosts.all()) {
    if (!host.lost && host.info.certificate_ends_s > 0)
      page.add({{"process", "executor"}, {"host", host.info.name}},
               static_cast<uint64_t>(host.info.certificate_ends_s));
  }
}

}  // namespace

std::string metrics_page(Controller& controller, const Reactor& reactor,
                         const std::optional<Certificate>& own) {
  const HostTable& hosts = controller.tables().hosts;
  MetricsPage page;
  page.append(
      controller.tables().metrics.to_prometheus([&](MetricKind kind, const MetricLabels& labels) {
        const auto host = labels.find("host");
        if (host == labels.end()) return true;
        const NamedHost* named = hosts.names().find(host->second);
        return named != nullptr && (kind == MetricKind::kCounter || !named->gone_at_ns);
      }));
  add_hosts(page, hosts);
  add_reactors(page, reactor, hosts);
  add_certificates(page, hosts, own);
  add_programs(page, controller.program_counts());
  return page.text();
}

}  // namespace gangway
