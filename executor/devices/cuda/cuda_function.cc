#include "executor/devices/cuda/cuda_function.h"

#include <algorithm>

#include "executor/devices/cuda/lower/product_fusion.h"

namespace gangway {
namespace {

constexpr uint32_t kMain = 0;  // The one part.

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

}  // namespace

CudaFunction::CudaFunction(const LocalFunction& given, std::shared_ptr<cuda::Gpu> gpu)
    : PlannedFunction(cuda::fuse_products(given), Bodies::kOne), gpu_(std::move(gpu)) {
  const size_t nodes = function().nodes.size();
  std::vector<std::vector<cuda::Command>> commands(nodes);
  std::vector<int64_t> scratch(nodes, 0);
  auto keeps = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (NodeId id = 0; id < nodes; ++id) {
    cuda::Lowering call(*gpu_, function(), id);
    if (row(call.op()).meets) continue;  // Where it can't, the device refuses the group.
    call.op() == Op::timed ? call.copy(call.read(0), call.write(0)) : cuda::lower(call);
    commands[id] = std::move(call.commands);
    scratch[id] = call.scratch_bytes;
    keeps->insert(keeps->end(), call.keeps.begin(), call.keeps.end());
  }
  owner_ = {gpu_->next_serial(), alive_, std::move(keeps)};
  plan([&](const Function&, NodeId id) { return scratch[id]; }, Collectives::kBeside);
  const std::vector<cuda::Join> joins = cuda::plan_joins(local(), memory(), scratch);
  for (NodeId id = 0; id < nodes; ++id) {
    for (cuda::Command& command : commands[id]) place(command, id);
    steps_.push_back({{step_of(kMain, id)},
                      std::move(commands[id]),
                      label_of(function(), function().nodes[id]),
                      joins[id]});
  }
}

void CudaFunction::place(cuda::Command& command, NodeId id) const {
  const Node& node = function().nodes[id];
  for (cuda::Argument& argument : command.arguments) {
    if (!argument.is_tensor) continue;
    switch (argument.ref.of) {
      case cuda::TensorRef::kInput:
        argument.place = main().places.of(node.inputs[argument.ref.index]);
        break;
      case cuda::TensorRef::kResult:
        argument.place = main().places.of(node.first_result + argument.ref.index);
        break;
      case cuda::TensorRef::kScratch: argument.place = main().places.scratch(id); break;
    }
    argument.place.offset += argument.ref.offset;
  }
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
      case StepKind::kKernel:
        if (!frame.check) {
          advance_commands(frame, device);
          continue;
        }
        issue(step, frame, device);
        break;
      case StepKind::kTimed: progress = advance_timed(step, frame, turn); break;
      case StepKind::kCollective: progress = advance_collective(step, frame); break;
      case StepKind::kEnterBody:
      case StepKind::kEndOfBody: break;  // Bodies are one step.
    }
    if (progress == Progress::kPending) return Progress::kPending;
    if (frame.check) {
      device.join_collectives();
      const Node& node = function().nodes[frame.step];
      check_values(frame, device, node.first_result, node.results);
    }
    ++frame.step;
  }
  // Collectives go on beside the sections that follow, up to where the join plan waits for them.
  if (frame.end == commit_step() || frame.end == step_count()) device.join_collectives();
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
  } while (end < frame.end && steps_[end].kind == StepKind::kKernel && !steps_[end].join.wait);
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
  error->add_where({.at = where(function(), frame.step)});
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
  return wait_to_resume(frame, turn);
}

Progress CudaFunction::advance_collective(const Step& step, CallFrame& frame) const {
  Collective& collective = *frame.collectives[step.collective];
  if (!frame.begun) {
    collective.name(step.label);
    begin_collective(step, frame);
  }
  if (collective.advance() == Progress::kPending) return Progress::kPending;
  if (const auto failure = collective.failure(); failure != nullptr) fail(frame, *failure);
  if (collective.poisoned()) frame.poisoned = frame.peer_poisoned = true;
  frame.begun = false;
  return Progress::kDone;
}

void CudaFunction::begin_check(CallFrame& frame, Device& device) const {
  const auto bytes = static_cast<int64_t>(function().types.size() * sizeof(uint32_t));
  frame.told = device.host_memory(bytes);
  device.host_access(HostAccess::kWrite, frame.told.get(), bytes);
  std::fill_n(frame.told.get(), bytes, std::byte{0});
  check_values(frame, device, 0, static_cast<uint32_t>(function().parameters.size()));
}

void CudaFunction::check_values(CallFrame& frame, Device& device, ValueId first,
                                uint32_t count) const {
  if (frame.poisoned) return;
  auto* const told = reinterpret_cast<uint32_t*>(frame.told.get());
  for (ValueId value = first; value < first + count; ++value) {
    const Type& type = function().types[value];
    if (is_float(type.dtype))
      device.check_finite(type.dtype, address(frame, main(), value), type.elements(), told + value);
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
  const HostMemory memory = std::move(frame.told);
  const auto* told = reinterpret_cast<const uint32_t*>(memory.get());
  device.host_access(HostAccess::kRead, told,
                     static_cast<int64_t>(function().types.size() * sizeof(uint32_t)));
  if (failure != nullptr && frame.error == nullptr) frame.error = std::move(failure);
  if (frame.poisoned || frame.error != nullptr) return Progress::kDone;
  const auto finite = [&](ValueId value) { return told[value] == 0; };
  for (NodeId id = 0; id < frame.end && frame.culprit == kNone; ++id) {
    if (inputs_finite(main(), id, finite) && !results_finite(main(), id, finite))
      frame.culprit = id;
  }
  return Progress::kDone;
}

}  // namespace gangway
