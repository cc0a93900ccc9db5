// `gangway top`: the programs on a cluster's devices, again and again.
//
// On a terminal it draws on the alternate screen, and leaves it when the command ends, also by a
// signal. Elsewhere it prints one snapshot after another.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/base/printable.h"
#include "tools/commands/command.h"
#include "tools/commands/status_views.h"
#include "tools/io/number.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct TopCommand {
  bool json = false, once = false;
  double interval_s = 1;
  ClusterOptions cluster;
};

constexpr char kEnter[] = "\033[?1049h\033[?25l";  // The alternate screen, no cursor.
constexpr char kLeave[] = "\033[?25h\033[?1049l";

// Restores the screen, and then ends the process as the signal would have.
void leave_and_end(int number) {
  const ssize_t written = write(STDOUT_FILENO, kLeave, sizeof(kLeave) - 1);
  static_cast<void>(written);  // An error could not be handled here.
  signal(number, SIG_DFL);
  raise(number);
}

// A new size of the terminal only ends the wait for the next view.
void look_again(int) {}

// Shows the alternate screen while it lives. It owns the handlers of these signals.
class Screen {
 public:
  Screen() {
    struct sigaction action = {};
    action.sa_handler = leave_and_end;
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
    action.sa_handler = look_again;
    sigaction(SIGWINCH, &action, nullptr);
    print_controls(kEnter);
  }
  ~Screen() {
    // The write fails if the terminal is gone, and then does not matter.
    [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kLeave, sizeof(kLeave) - 1);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) signal(number, SIG_DFL);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Draws the lines that fit, and leaves out those below.
  static void draw(const std::vector<std::string>& lines, const TerminalSize& size) {
    std::string text = "\033[H";
    const size_t count = std::min(lines.size(), size.rows == 0 ? lines.size() : size.rows);
    for (size_t i = 0; i < count; ++i) text += cat(i == 0 ? "" : "\r\n", lines[i], "\033[K");
    text += "\033[J";
    print_controls(text);
  }
};

std::vector<std::string> view(const ClusterStatus& status, const TopCommand& command,
                              size_t width) {
  const auto suspects = std::ranges::count_if(
      status.hosts, [](const HostStatus& host) { return host.suspect_ms > 0; });
  uint32_t devices = 0;
  for (const HostStatus& host : status.hosts) devices += host.devices;
  const auto programs = std::ranges::count(status.programs, false, &ProgramStatus::is_self);
  std::vector<std::string> lines{cat("gangway ", command.cluster.address, ": ", status.hosts.size(),
                                     " hosts, ", devices, " devices, ", programs, " programs",
                                     suspects == 0 ? "" : cat(", ", suspects, " suspect"))};
  if (width > 0) lines[0] = shortened(printable(lines[0]), width);
  for (const Table& table : {host_table(status), program_table(status.programs)}) {
    lines.emplace_back();
    const std::vector<std::string> more = lines_of(table, width);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

void wait_for_the_next(const TopCommand& command) {
  // A signal ends the wait early, and the view is then drawn anew.
  poll(nullptr, 0, static_cast<int>(std::lround(command.interval_s * 1000)));
}

int top(const TopCommand& command) {
  const Client client = command.cluster.connect_as("gangway top");
  std::optional<Screen> screen;
  if (!command.once && !command.json && terminal_size().columns > 0) screen.emplace();
  while (true) {
    const ClusterStatus status = client.status();
    const TerminalSize size = terminal_size();
    if (command.json) {
      print_line(cat("{\"hosts\":", to_json(host_rows(status.hosts)),
                     ",\"programs\":", to_json(program_rows(status.programs)), "}"));
    } else if (screen) {
      Screen::draw(view(status, command, size.columns), size);
    } else {
      print_lines(view(status, command, size.columns));
    }
    if (command.once) return 0;
    wait_for_the_next(command);
  }
}

}  // namespace

void add_top(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "top", "Watch the devices of a running cluster, and the programs that run on them");
  const auto options = add_options(*command, chosen, top);
  add_cluster(*command, options->cluster);
  command->add_option("--interval", options->interval_s, "seconds from one view to the next")
      ->check(real_number(0.05, 86'400))
      ->capture_default_str();
  command->add_flag("--once", options->once, "one view, and no more");
  command->add_flag("--json", options->json, "a line of JSON for each view");
}

}  // namespace gangway::tool
