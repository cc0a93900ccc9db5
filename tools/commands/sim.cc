// `gangway sim`: runs programs on a simulated cluster of any size, in virtual time, from a seed.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/scheduler/policies/policy.h"
#include "runtime/base/printable.h"
#include "runtime/base/units.h"
#include "sim/study.h"
#include "tools/commands/command.h"
#include "tools/commands/lowered_program.h"
#include "tools/commands/mesh.h"
#include "tools/io/number.h"
#include "tools/io/output.h"
#include "tools/io/table.h"
#include "tools/page/page.h"
#include "tools/page/timeline_document.h"

namespace gangway::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgramHelp[] =
    "a program, as Program::save() writes it (`gangway train` leaves one in its --out folder, "
    "train_step.gwp, cut as its --strategy says), or as text (`gangway graph FILE` prints it); "
    "several run side by side";

struct SimCommand {
  std::vector<std::string> files;
  std::string mesh, faults, html;
  int hosts = 2, devices_per_host = 4, islands = 1;
  int ranks_per_device = 1;
  int runs = 10, runs_in_flight = 4;
  uint64_t seed = 1;
  int64_t memory_gib = 64;
  int64_t host_timeout_ms = SimClusterOptions().host_timeout_ms;
  std::string policy = SimClusterOptions().policy;
  std::vector<double> weights;
  std::vector<int32_t> priorities;
  std::string dispatch = to_string(Dispatch::kParallel);
  int64_t faults_within_ms = 100;
  bool values = false, measured = false, json = false;
};

// Parses "seed:7".
uint64_t parse_faults(const std::string& text) {
  GW_REQUIRE(text.starts_with("seed:"), "--faults: expected seed:N, got \"", text, "\"");
  return static_cast<uint64_t>(number_in(text.substr(5), "--faults", 0, INT64_MAX));
}

// Returns the shares of the first programs, as given; the programs behind them get the default.
std::vector<Share> shares_of(const SimCommand& command) {
  const size_t given = std::max(command.weights.size(), command.priorities.size());
  GW_REQUIRE(given <= command.files.size(), "--weights, --priorities: expected at most one for ",
             "each of the ", command.files.size(), " programs, got ", given);
  std::vector<Share> shares(given);
  for (size_t i = 0; i < command.weights.size(); ++i) shares[i].weight = command.weights[i];
  for (size_t i = 0; i < command.priorities.size(); ++i) shares[i].priority = command.priorities[i];
  return shares;
}

StudyOptions options_of(const SimCommand& command) {
  StudyOptions options{
      .cluster = {.hosts = command.hosts,
                  .devices_per_host = command.devices_per_host,
                  .islands = command.islands,
                  .memory_bytes = command.memory_gib << 30,
                  .timed_only = !command.values,
                  .host_timeout_ms = command.host_timeout_ms,
                  .policy = command.policy,
                  .time = command.measured ? ProcessTime::kMeasured : ProcessTime::kModelled},
      .shares = shares_of(command),
      .ranks_per_device = command.ranks_per_device,
      .runs = command.runs,
      .runs_in_flight = command.runs_in_flight,
      .dispatch = dispatch_of("--dispatch", command.dispatch),
      .seed = command.seed,
      .faults_within_ns = command.faults_within_ms * 1'000'000,
      .traced = !command.html.empty()};
  const std::vector<MeshAxis> mesh = parse_mesh(command.mesh);
  for (const std::string& file : command.files)
    options.programs.push_back(with_mesh(Program::load(file), mesh));
  if (!command.faults.empty()) options.faults_seed = parse_faults(command.faults);
  return options;
}

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string study_json(const SimCommand& command, const StudyReport& report) {
  Json json{{"hosts", command.hosts},
            {"devices_per_host", command.devices_per_host},
            {"seed", command.seed},
            {"time", command.measured ? "measured" : "modelled"},
            {"makespan_ns", report.makespan_ns},
            {"utilisation", report.utilisation},
            {"controller_ns_per_run", report.controller_ns_per_run},
            {"controller_measured_ns_per_run", report.controller_measured_ns_per_run},
            {"frames_per_run", report.frames_per_run},
            {"bytes_per_run", report.bytes_per_run},
            {"replay", hexadecimal(report.replay_hash)}};
  Json& programs = json["programs"] = Json::array();
  for (const ProgramReport& program : report.programs) {
    programs.push_back({{"name", program.name},
                        {"devices", program.devices},
                        {"installed", program.installed},
                        {"runs", program.submitted},
                        {"done", program.done},
                        {"failed", program.failed},
                        {"busy_ns", program.busy_ns},
                        {"share", program.share},
                        {"warnings", program.warnings},
                        {"error", program.error}});
  }
  Json& faults = json["faults"] = Json::array();
  for (const FaultReport& fault : report.faults) {
    faults.push_back({{"kind", to_string(fault.fault.kind)},
                      {"fault", to_string(fault.fault)},
                      {"named", fault.named},
                      {"named_after_ns", fault.named_after_ns}});
  }
  Json& unmet = json["unmet_faults"] = Json::array();
  for (const Fault& fault : report.unmet) unmet.push_back(to_string(fault));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Indents all lines but the first.
std::string set_in(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, text.find_last_not_of('\n') + 1))
    result += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return result;
}

void print_program(const SimCommand& command, const ProgramReport& program) {
  const std::string begin =
      cat(padded(printable(program.name), 24),
          formatted(" %4lld devices, ", static_cast<long long>(program.devices)));
  if (!program.installed) return print(cat(begin, "can't run: ", set_in(program.error), "\n"));
  print(cat(begin, formatted("%d of %d runs done, %d failed, %5.1f %% of device time\n",
                             program.done, command.runs, program.failed, 100 * program.share)));
  for (const std::string& warning : program.warnings) print(cat("  ", set_in(warning), "\n"));
  if (!program.error.empty())
    print(cat("  stopped at its first error: ", set_in(program.error), "\n"));
}

std::string how_timed(const SimCommand& command, const StudyReport& report) {
  if (!command.measured) return "modelled";
  return cat(format_duration_ns(static_cast<int64_t>(report.controller_measured_ns_per_run)),
             " measured, the rest what the system's calls take");
}

void print_faults(const StudyReport& report) {
  for (const FaultReport& fault : report.faults) {
    print_line(to_string(fault.fault));
    print(fault.named.empty() ? std::string("  no program failed\n")
                              : cat("  named after ", format_duration_ns(fault.named_after_ns),
                                    ": ", set_in(fault.named), "\n"));
  }
  for (const Fault& fault : report.unmet) {
    print_line(to_string(fault));
    print_line(
        "  did not happen: programs had ended, or the host was gone (see --faults-within-ms)");
  }
}

void print_study(const SimCommand& command, const StudyReport& report) {
  if (report.makespan_ns > 0) {
    print_line(cat("makespan     ", format_duration_ns(report.makespan_ns),
                   " (virtual), from the first run to the end of the last"));
    print_line(formatted("utilisation  %.1f %% of %d devices", 100 * report.utilisation,
                         command.hosts * command.devices_per_host));
    print_line(cat(
        formatted("controller   %.1f us of processor time, %.1f frames, %.0f bytes a "
                  "run; ",
                  report.controller_ns_per_run / 1000, report.frames_per_run, report.bytes_per_run),
        how_timed(command, report)));
  }
  for (const ProgramReport& program : report.programs) print_program(command, program);
  print_faults(report);
  print_line(cat("replay       ", hexadecimal(report.replay_hash), " from seed ", command.seed,
                 command.faults.empty() ? "" : " and faults ", command.faults));
}

// Writes a page of the program, its plan and the timeline of its devices.
void write_html(StudyReport& report, const std::string& file) {
  if (report.trace.empty() || !report.programs[0].installed) return;
  const LoweredProgram lowered = lower_as_it_runs(std::move(report.graph));
  auto fields = page_fields(lowered);
  fields.emplace_back("timeline", timeline_document(report.trace, lowered.plan));
  write_page(document_of(fields), file);
}

int simulate(const SimCommand& command) {
  StudyReport report = study(options_of(command));
  if (!command.html.empty()) write_html(report, command.html);
  if (command.json) {
    print_line(study_json(command, report));
  } else {
    print_study(command, report);
    if (!command.html.empty()) print_line(cat("page         open ", command.html, " in a browser"));
  }
  // Faults begin with the runs, so they never excuse a program that could not be installed.
  const bool failed = std::ranges::any_of(report.programs, [&](const ProgramReport& program) {
    return !program.error.empty() && (command.faults.empty() || !program.installed);
  });
  return failed ? 1 : 0;
}

}  // namespace

void add_sim(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "sim", "Run programs on a simulated cluster, in virtual time, from a seed");
  const auto options = add_options(*command, chosen, simulate);
  command->add_option("--program", options->files, kProgramHelp)->required();
  command->add_option("--mesh", options->mesh,
                      "AXIS=SIZE,...: sizes for the axes of the programs' meshes");
  const auto number = [&](const char* name, auto& to, const char* what, auto high) {
    command->add_option(name, to, what)->check(whole_number(1, high))->capture_default_str();
  };
  number("--hosts", options->hosts, "simulated hosts", 128);
  number("--devices-per-host", options->devices_per_host, "simulated devices of each", 8);
  number("--ranks-per-device", options->ranks_per_device,
         "devices of the programs' meshes that share each simulated one", 64);
  number("--islands", options->islands, "that the hosts lie in", 128);
  number("--runs", options->runs, "of each program", 1 << 30);
  number("--runs-in-flight", options->runs_in_flight, "of each program", 64);
  number("--memory-gib", options->memory_gib, "of each device", 1 << 10);
  number("--host-timeout-ms", options->host_timeout_ms, "after which a silent host is lost",
         1 << 30);
  command
      ->add_option("--seed", options->seed,
                   "of everything that is drawn; the same seed repeats a"
                   " simulation exactly")
      ->check(whole_number(0, INT64_MAX))
      ->capture_default_str();
  command->add_option("--policy", options->policy, "who goes next where programs share devices")
      ->check(CLI::IsMember(policy_names()))
      ->capture_default_str();
  command->add_option("--dispatch", options->dispatch, "of the programs' nodes to their hosts")
      ->check(CLI::IsMember({"parallel", "sequential"}))
      ->capture_default_str();
  command
      ->add_option("--weights", options->weights,
                   "W,W,...: of the programs, in their order: parts of shared devices' time")
      ->delimiter(',')
      ->check(real_number(kWeightMin, kWeightMax));
  command
      ->add_option("--priorities", options->priorities,
                   "P,P,...: of the programs: under the policy \"priority\", higher first")
      ->delimiter(',')
      ->check(whole_number(-kPriorityMax, kPriorityMax));
  command->add_option("--faults", options->faults,
                      "seed:N: let go wrong what this seed draws; a program stops at the first "
                      "error that it meets");
  number("--faults-within-ms", options->faults_within_ms, "of the first run", 1 << 30);
  command->add_flag("--values", options->values,
                    "compute real values, for small programs; else only time passes");
  command->add_flag("--measured", options->measured,
                    "charge the controller's and executors' real processor time, in place of a "
                    "committed table; does not repeat exactly");
  command->add_option("--html", options->html,
                      "of one program: its graph, its plan and the schedule of its last runs into "
                      "this file, as a page for a browser");
  command->add_flag("--json", options->json, "as JSON");
}

}  // namespace gangway::tool
