#include "tools/live/live_page.h"

#include <capnp/message.h>

#include <algorithm>

#include "client/session_wire.h"
#include "controller/service/status_wire.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/os/user.h"
#include "tools/commands/lowered_program.h"
#include "tools/commands/status_views.h"
#include "tools/live/live_timeline.h"
#include "tools/page/page.h"

namespace gangway::tool {
namespace {

constexpr int64_t kBetweenSamplesNs = 1'000'000'000;
constexpr size_t kHeldMax = size_t{1} << 15;  // Limit on the pairs of a device and its holder.

// Pairs of a device and the program whose slice lies on it.
std::vector<JsonObject> held_rows(const SharedTables& tables) {
  std::vector<JsonObject> rows;
  for (const auto& [session, devices] : tables.slices.devices()) {
    for (const DeviceRef& device : devices) {
      if (rows.size() >= kHeldMax) return rows;
      rows.push_back({{"host", tables.hosts.all().at(device.host).info.name},
                      {"device", uint64_t{device.device}},
                      {"id", session.value}});
    }
  }
  return rows;
}

std::vector<JsonObject> executable_rows(Controller& controller,
                                        const std::vector<ProgramStatus>& programs) {
  std::vector<JsonObject> rows;
  for (const ProgramStatus& program : programs) {
    for (const ShownPlan& shown : controller.shown_graphs().plans(SessionId(program.id)))
      rows.push_back({{"id", program.id}, {"plan", shown.plan.value}, {"name", shown.name}});
  }
  return rows;
}

}  // namespace

LivePage::LivePage(Reactor& reactor, Network& network, const std::string& address,
                   ControllerService& service, std::shared_ptr<TokenTable> tokens, Logger log)
    : reactor_(reactor),
      controller_(service.controller()),
      background_(reactor, "page/graphs", 1),
      fibers_(reactor) {
  server_ = std::make_unique<PageServer>(
      reactor, network, address,
      PageServerOptions{.user = own_user_name(),
                        .tokens = std::move(tokens),
                        .cluster = [this] { return cluster(); },
                        .history = [this](uint64_t after) { return history_.to_json(after); },
                        .graph = [this](const GraphWanted& wanted) { return graph(wanted); },
                        .timeline = [this](const GraphWanted& wanted) { return timeline(wanted); },
                        .is_ready = [&service] { return service.is_ready(); },
                        .log = std::move(log)});
  fibers_.spawn("sample the cluster", [this] { sample(); });
}

LivePage::~LivePage() {
  server_.reset();
  fibers_.cancel();
}

ClusterStatus LivePage::status() const {
  capnp::MallocMessageBuilder message;
  const auto results = message.initRoot<wire::Controller::StatusResults>();
  write_status(results, controller_, own_user_name(), reactor_.clock().now_ns());
  return internal::read_status(results.asReader(), 0);
}

std::string LivePage::cluster() const {
  const ClusterStatus now = status();
  return cat("{\"time_ms\":", reactor_.clock().wall_ns() / 1'000'000,
             ",\"hosts\":", to_json(host_rows(now.hosts)),
             ",\"programs\":", to_json(program_rows(now.programs)),
             ",\"held\":", to_json(held_rows(controller_.tables())),
             ",\"executables\":", to_json(executable_rows(controller_, now.programs)), "}");
}

SessionId LivePage::program_of(const std::string& name) const {
  std::optional<SessionId> found = controller_.programs().find(own_user_name(), name);
  const size_t slash = name.find('/');
  if (!found && slash != std::string::npos)
    found = controller_.programs().find(name.substr(0, slash), name.substr(slash + 1));
  GW_REQUIRE(found, "graph: there is no program \"", cut(name, kQuotedBytesMax), "\"");
  return *found;
}

std::shared_ptr<const std::string> LivePage::graph(const GraphWanted& wanted) {
  const ShownGraph shown =
      controller_.shown_graphs().graph(program_of(wanted.program), {.plan = PlanId(wanted.plan)});
  const auto is_it = [&](const ShownText& one) { return one.plan == shown.plan; };
  if (const auto kept = std::ranges::find_if(graphs_, is_it); kept != graphs_.end()) {
    graphs_.splice(graphs_.begin(), graphs_, kept);
    return graphs_.front().text;
  }
  auto text = background_.run([shown] {
    const LoweredProgram lowered = lower_as_it_runs({.program = *shown.program,
                                                     .plan = *shown.plan,
                                                     .kinds = shown.kinds,
                                                     .placed = shown.placed});
    return std::make_shared<const std::string>(document_of(page_fields(lowered)));
  });
  graphs_.remove_if(is_it);  // Another request may have added it meanwhile.
  graphs_.push_front({shown.plan, text});
  if (graphs_.size() > kGraphsMax) graphs_.pop_back();
  return text;
}

std::string LivePage::timeline(const GraphWanted& wanted) {
  const SessionId program = program_of(wanted.program);
  const GraphRequest request{.plan = PlanId(wanted.plan)};
  const uint32_t events =
      live_events_per_row(*controller_.shown_graphs().graph(program, request).plan);
  return background_.run(
      [timeline = controller_.shown_graphs().timeline(program, request, events)]() mutable {
        return live_timeline(std::move(timeline));
      });
}

void LivePage::sample() {
  while (true) {
    history_.add(status(), reactor_.clock().wall_ns() / 1'000'000);
    next_sample_.wait_until_ns("for the next sample",
                               reactor_.clock().now_ns() + kBetweenSamplesNs);
  }
}

}  // namespace gangway::tool
