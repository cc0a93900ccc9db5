#include "executor/devices/cuda/cuda_function.h"

#include <algorithm>

#include "executor/devices/cuda/lower/product_fusion.h"
#include "executor/devices/lower/masked_values.h"

namespace gangway {
namespace {

Reduction reduction_of(const Node& node) {
  const std::string& name = node.attrs.text("reduction");
  return name == "max" ? Reduction::kMax : name == "min" ? Reduction::kMin : Reduction::kSum;
}

int64_t aligned(int64_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

// "step: %14 dot", "step: %20 fusion of mul, exp, add"
std::string label_of(const Function& function, const Node& node) {
  std::string label = cat(function.name, ": %", node.first_result, " ", to_string(node.op));
  const char* before = " of ";
  if (node.body == nullptr) return label;
  if (node.attrs.find(cuda::kProductAttr) != nullptr) {
    label += cat(before, to_string(Op::dot));
    before = ", ";
  }
  for (const Node& inner : node.body->nodes) {
    if (inner.op == Op::constant || inner.op == Op::broadcast) continue;
    label += cat(before, to_string(inner.op));
    before = ", ";
  }
  return label;
}

std::byte* at(const CallFrame& frame, const cuda::Place& place) {
  return frame.bases[place.base] + place.offset;
}

}  // namespace

CudaFunction::CudaFunction(const LocalFunction& local, std::shared_ptr<cuda::Gpu> gpu)
    : local_(cuda::fuse_products(local)),
      gpu_(std::move(gpu)),
      masked_(masked_values(*local_.function)) {
  const Function& function = *local_.function;
  std::vector<std::vector<cuda::Command>> commands(function.nodes.size());
  std::vector<int64_t> scratch(function.nodes.size(), 0);
  auto keeps = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    cuda::Lowering call(*gpu_, function, id);
    if (call.op() == Op::all_reduce) continue;
    call.op() == Op::timed ? call.copy(call.read(0), call.write(0)) : cuda::lower(call);
    commands[id] = std::move(call.commands);
    scratch[id] = call.scratch_bytes;
    keeps->insert(keeps->end(), call.keeps.begin(), call.keeps.end());
  }
  owner_ = {gpu_->next_serial(), alive_, std::move(keeps)};
  memory_ = plan_memory(
      local_, [&](const Function&, NodeId id) { return scratch[id]; }, Collectives::kBeside);
  const std::vector<cuda::Join> joins = cuda::plan_joins(local_, memory_, scratch);
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    add_step(id, std::move(commands[id]));
    steps_.back().join = joins[id];
  }
}

cuda::Place CudaFunction::place_of(ValueId value) const {
  const MemorySlot& slot = memory_.slots[value];
  const auto parameters = static_cast<uint32_t>(local_.function->parameters.size());
  const auto results = static_cast<uint32_t>(local_.function->results.size());
  switch (slot.kind) {
    case MemorySlot::Kind::kParameter: return {slot.index, slot.offset};
    case MemorySlot::Kind::kResult: return {parameters + slot.index, slot.offset};
    case MemorySlot::Kind::kArena: break;
  }
  return {parameters + results, slot.offset};
}

void CudaFunction::place(cuda::Command& command, NodeId id) const {
  const Function& function = *local_.function;
  const Node& node = function.nodes[id];
  const auto arena = static_cast<uint32_t>(function.parameters.size() + function.results.size());
  for (cuda::Argument& argument : command.arguments) {
    if (!argument.is_tensor) continue;
    switch (argument.ref.of) {
      case cuda::TensorRef::kInput:
        argument.place = place_of(node.inputs[argument.ref.index]);
        break;
      case cuda::TensorRef::kResult:
        argument.place = place_of(node.first_result + argument.ref.index);
        break;
      case cuda::TensorRef::kScratch:
        argument.place = {arena, std::max<int64_t>(0, memory_.scratch_offset[id])};
        break;
    }
    argument.place.offset += argument.ref.offset;
  }
}

void CudaFunction::add_step(NodeId id, std::vector<cuda::Command> commands) {
  const Function& function = *local_.function;
  const Node& node = function.nodes[id];
  Step step{.commands = std::move(commands), .label = label_of(function, node)};
  for (cuda::Command& command : step.commands) place(command, id);
  int64_t bytes = 0;
  for (ValueId input : node.inputs) {
    step.inputs.push_back(place_of(input));
    bytes += aligned(function.types[input].bytes());
  }
  for (uint32_t r = 0; r < node.results; ++r)
    step.results.push_back(place_of(node.first_result + r));
  if (node.op == Op::all_reduce) {
    step.kind = StepKind::kAllReduce;
    step.collective = add_need(node.attrs.text("axes"), bytes);
    step.reduction = reduction_of(node);
  } else if (node.op == Op::timed) {
    step.kind = StepKind::kTimed;
    step.duration_ns = node.attrs.integer("microseconds") * 1000;
  }
  steps_.push_back(std::move(step));
}

Progress CudaFunction::advance(CallFrame& frame, Turn& turn) const {
  if (!frame.check || frame.poisoned) return advance_steps(frame, turn);
  if (frame.told == nullptr) begin_check(frame, turn.device);
  if (advance_steps(frame, turn) == Progress::kPending) return Progress::kPending;
  return end_check(frame, turn.device);
}

Progress CudaFunction::advance_steps(CallFrame& frame, Turn& turn) const {
  auto& device = static_cast<CudaDevice&>(turn.device);
  while (frame.step < frame.end) {
    const Step& step = steps_[frame.step];
    if (step.join.wait) device.join(step.join.beside);
    Progress progress = Progress::kDone;
    switch (step.kind) {
      case StepKind::kCommands:
        if (!frame.check) {
          advance_commands(frame, device);
          continue;
        }
        issue(step, frame, device);
        break;
      case StepKind::kTimed: progress = advance_timed(step, frame, turn); break;
      case StepKind::kAllReduce: progress = advance_all_reduce(step, frame); break;
    }
    if (progress == Progress::kPending) return Progress::kPending;
    if (frame.check) {
      device.join_collectives();
      const Node& node = local_.function->nodes[frame.step];
      check_values(frame, device, node.first_result, node.results);
    }
    ++frame.step;
  }
  device.join_collectives();
  return Progress::kDone;
}

void CudaFunction::issue(const Step& step, CallFrame& frame, CudaDevice& device) const {
  if (frame.poisoned) return;
  if (device.lost() != nullptr) {
    frame.error = device.lost();
    frame.poisoned = true;
    return;
  }
  const cuda::Status status = issue_on(step, frame, device.compute());
  if (!status.ok()) fail(frame, device, status);
}

cuda::Status CudaFunction::issue_on(const Step& step, const CallFrame& frame,
                                    cuda::StreamHandle stream) const {
  for (const cuda::Command& command : step.commands) {
    cuda::Status status =
        command.issue(gpu_->driver(), {stream, step.label}, frame.bases.data(), frame.mesh_device);
    if (!status.ok()) return status;
  }
  return {};
}

uint32_t CudaFunction::commands_end(const CallFrame& frame) const {
  uint32_t end = frame.step;
  do {
    ++end;
  } while (end < frame.end && steps_[end].kind == StepKind::kCommands && !steps_[end].join.wait);
  return end;
}

// Up to the next step that may wait.
void CudaFunction::advance_commands(CallFrame& frame, CudaDevice& device) const {
  const uint32_t begin = frame.step, end = commands_end(frame);
  if (!frame.poisoned && device.lost() == nullptr && end - begin > 1) {
    cuda::Status status;
    const auto issue_all = [&](cuda::StreamHandle stream) {
      for (uint32_t step = begin; step < end; ++step) {
        cuda::Status issued = issue_on(steps_[step], frame, stream);
        if (!issued.ok()) return issued;
      }
      return cuda::Status{};
    };
    if (device.graphs().replay({device.compute(), steps_[begin].label},
                               {owner_, begin, end, frame.mesh_device, frame.bases}, issue_all,
                               status)) {
      if (!status.ok()) fail(frame, device, status);
      frame.step = end;
      return;
    }
  }
  for (; frame.step < end; ++frame.step) issue(steps_[frame.step], frame, device);
}

void CudaFunction::fail(CallFrame& frame, CudaDevice& device, const cuda::Status& status) const {
  fail(frame, *device.failure_of(status));
}

void CudaFunction::fail(CallFrame& frame, const Error& failure) const {
  auto error = std::make_shared<Error>(failure);
  error->add_where({.at = where(*local_.function, frame.step)});
  frame.error = std::move(error);
  frame.poisoned = true;
}

// The device is busy for a given time, once what came before is done.
Progress CudaFunction::advance_timed(const Step& step, CallFrame& frame, Turn& turn) const {
  auto& device = static_cast<CudaDevice&>(turn.device);
  if (!frame.begun) {
    issue(step, frame, device);
    if (frame.poisoned) return Progress::kDone;
    frame.told_by = device.mark();
    frame.begun = true;
    frame.resume_at_ns = 0;
  }
  if (frame.resume_at_ns == 0) {
    std::shared_ptr<const Error> failure;
    if (device.reached(frame.told_by, &failure) == Progress::kPending) return Progress::kPending;
    if (failure != nullptr) frame.error = std::move(failure);
    frame.resume_at_ns = device.now_ns() + step.duration_ns;
  }
  turn.now_ns = device.now_ns();
  if (turn.now_ns < frame.resume_at_ns) {
    turn.wake_by(frame.resume_at_ns);
    return Progress::kPending;
  }
  frame.begun = false;
  return Progress::kDone;
}

Progress CudaFunction::advance_all_reduce(const Step& step, CallFrame& frame) const {
  Collective& collective = *frame.collectives[step.collective];
  if (!frame.begun) {
    const Node& node = local_.function->nodes[frame.step];
    frame.bucket.clear();
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Type& type = local_.function->types[node.inputs[i]];
      frame.bucket.push_back(
          {at(frame, step.inputs[i]), at(frame, step.results[i]), type.elements(), type.dtype});
    }
    collective.name(step.label);
    collective.begin_all_reduce(frame.bucket, step.reduction, frame.poisoned);
    frame.begun = true;
  }
  if (collective.advance() == Progress::kPending) return Progress::kPending;
  if (const auto failure = collective.failure(); failure != nullptr) fail(frame, *failure);
  if (collective.poisoned()) frame.poisoned = frame.peer_poisoned = true;
  frame.begun = false;
  return Progress::kDone;
}

std::byte* CudaFunction::address(const CallFrame& frame, ValueId value) const {
  return at(frame, place_of(value));
}

void CudaFunction::begin_check(CallFrame& frame, Device& device) const {
  const Function& function = *local_.function;
  const auto bytes = static_cast<int64_t>(function.types.size() * sizeof(uint32_t));
  frame.told = device.host_memory(bytes);
  device.host_access(HostAccess::kWrite, frame.told.get(), bytes);
  std::fill_n(frame.told.get(), bytes, std::byte{0});
  check_values(frame, device, 0, static_cast<uint32_t>(function.parameters.size()));
}

void CudaFunction::check_values(CallFrame& frame, Device& device, ValueId first,
                                uint32_t count) const {
  if (frame.poisoned) return;
  auto* const told = reinterpret_cast<uint32_t*>(frame.told.get());
  for (ValueId value = first; value < first + count; ++value) {
    const Type& type = local_.function->types[value];
    if (is_float(type.dtype))
      device.check_finite(type.dtype, address(frame, value), type.elements(), told + value);
  }
}

// Each value was checked when it was computed, so what a step read is known too.
Progress CudaFunction::end_check(CallFrame& frame, Device& device) const {
  if (!frame.begun) {
    frame.told_by = device.mark();
    frame.begun = true;
  }
  std::shared_ptr<const Error> failure;
  if (device.reached(frame.told_by, &failure) == Progress::kPending) return Progress::kPending;
  frame.begun = false;
  const Function& function = *local_.function;
  const HostMemory memory = std::move(frame.told);
  const auto* told = reinterpret_cast<const uint32_t*>(memory.get());
  device.host_access(HostAccess::kRead, told,
                     static_cast<int64_t>(function.types.size() * sizeof(uint32_t)));
  if (frame.poisoned || failure != nullptr) return Progress::kDone;
  for (NodeId id = 0; id < frame.end && frame.culprit == kNone; ++id) {
    const Node& node = function.nodes[id];
    const bool finite = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return masked_[input] || told[input] == 0;
    });
    for (uint32_t r = 0; finite && r < node.results; ++r) {
      const ValueId value = node.first_result + r;
      if (!masked_[value] && told[value] != 0) frame.culprit = id;
    }
  }
  return Progress::kDone;
}

}  // namespace gangway
