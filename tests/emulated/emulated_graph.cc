// Capture and launch of graphs of the emulated driver.
#include "tests/emulated/emulated_driver.h"

namespace gangway::emulated {

using namespace cuda;

Status EmulatedDriver::begin_capture(StreamHandle stream) {
  const auto lock = enter("begin_capture");
  if (Status status = lost("begin_capture"); !status.ok()) return status;
  Lane* lane = core_.lane(stream);
  if (lane == nullptr || lane->capture) return misuse("begin_capture", "names no idle stream");
  lane->capture = std::make_shared<Capture>();
  lane->capture_index = 0;
  lane->capture->lanes = {lane};
  lane->capture->clocks.resize(1);
  return {};
}

Result<GraphHandle> EmulatedDriver::end_capture(StreamHandle stream) {
  const auto lock = enter("end_capture");
  Lane* lane = core_.lane(stream);
  if (lane == nullptr || !lane->capture || lane->capture_index != 0)
    return to_error(misuse("end_capture", "names a stream where no capture began"));
  const std::shared_ptr<Capture> capture = lane->capture;
  capture->active = false;
  auto graph = std::make_unique<Graph>();
  graph->points = static_cast<uint32_t>(capture->points.size());
  graph->commands = std::move(capture->commands);
  std::string unjoined;
  for (uint32_t i = 0; i < capture->lanes.size(); ++i) {
    Lane& each = *capture->lanes[i];
    if (capture->clocks[0].at(i) < capture->clocks[i].at(i)) unjoined = each.name;
    each.capture = nullptr;
    graph->lanes.push_back(&core_.add_lane(each.device, each.name + " in a graph"));
  }
  if (!unjoined.empty())
    return to_error(
        misuse("end_capture", cat("leaves out what stream \"", unjoined, "\" does last")));
  core_.graphs.push_back(std::move(graph));
  return GraphHandle{core_.graphs.size()};
}

Status EmulatedDriver::launch(At at, GraphHandle handle) {
  const auto lock = enter(at.label);
  if (Status status = lost(at.label); !status.ok()) return status;
  if (Status status = outside_capture(at, "launch of a graph"); !status.ok()) return status;
  if (!handle || handle.bits > core_.graphs.size() || core_.graphs[handle.bits - 1] == nullptr)
    return misuse(at.label, "launches no graph");
  if (core_.take_injection(StatusKind::kLaunch, at.label))
    return {StatusKind::kLaunch, false, std::string(at.label)};
  core_.launch(*core_.lane(at.stream), *core_.graphs[handle.bits - 1], std::string(at.label));
  core_.advance_some();
  return {};
}

void EmulatedDriver::destroy(GraphHandle handle) {
  const auto lock = enter("destroy graph");
  if (!handle || handle.bits > core_.graphs.size()) return;
  std::unique_ptr<Graph>& graph = core_.graphs[handle.bits - 1];
  if (graph != nullptr && state().lost.ok() && !core_.host_clock.after(graph->last))
    core_.report(Fault::kMisuse, "destroy", "destroys a graph that may be under way",
                 core_.labels[graph->last.label]);
  graph = nullptr;
}

}  // namespace gangway::emulated
