#include "executor/replay/diagnosis.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr int kNodeBits = 32;                       // Bits of the function's step in a finding.
constexpr uint64_t kParameter = uint64_t{1} << 60;  // Flag of a parameter: above every op.

}  // namespace

Diagnosis::Diagnosis(const LaidOutShare& share, Collective* gate,
                     const std::vector<CallFrame>& frames, std::shared_ptr<const Unfused> unfused)
    : laid_(share), gate_(gate), frames_(frames), job_(std::move(unfused)) {}

Progress Diagnosis::advance(Turn& turn) {
  if (!job_->done.load(std::memory_order_acquire)) return Progress::kPending;
  while (!agreeing_) {
    const Entry& entry = laid_.entries[cursor_];
    if (entry.kind == EntryKind::kGate) {
      agreeing_ = true;
      gate_->begin_exchange(finding_, false);
      break;
    }
    if (entry.kind == EntryKind::kCall && entry.first) {
      if (!begun_) begin_call(entry);
      if (!looking_) {
        if (replay(turn) == Progress::kPending) return Progress::kPending;
        look_at_parameters();
      }
      if (!landed(turn)) return Progress::kPending;
      end_call(entry);
    }
    ++cursor_;
  }
  if (gate_->advance() == Progress::kPending) return Progress::kPending;
  conclude();
  return Progress::kDone;
}

// An exception on the device's thread becomes a line of the error.
Progress Diagnosis::replay(Turn& turn) {
  try {
    const Progress progress = unfused_->advance(frame_, turn);
    if (frame_.error != nullptr) keep(*std::exchange(frame_.error, nullptr));
    return progress;
  } catch (const Error& error) {
    keep(error);
  } catch (const std::exception& error) {
    keep({ErrorKind::kBug, error.what()});
  }
  frame_.poisoned = true;  // This member still takes part in collectives.
  frame_.begun = false;
  return unfused_->advance(frame_, turn);
}

void Diagnosis::keep(const Error& failure) {
  if (failure_.empty())
    failure_ = cat("the replay that looks for the op failed: ", failure.message());
}

// Begins the unfused form in an arena of its own; if there is no memory for it, the function as it
// is, whose chains are then named as a whole.
void Diagnosis::begin_call(const Entry& entry) {
  begun_ = true;
  const uint32_t function = laid_.plan->nodes[entry.node].function;
  frame_ = frames_[entry.node];
  unfused_ = {std::shared_ptr<void>(), entry.function};
  source_ = laid_.plan->functions[function].function;
  frame_.end = entry.function->commit_step();
  const CompileJob::Part* part = job_->job.part(function, laid_.device->compiler());
  if (part != nullptr && part->made != nullptr) {
    try {
      arena_ = allocate_buffer(laid_.device->memory(), part->made->arena_bytes(), "diagnosis");
      const Function& plain = *part->local.function;
      frame_.bases[plain.parameters.size() + plain.results.size()] = arena_->data();
      frame_.end = part->made->commit_step();
      source_ = part->local.function;
      unfused_ = part->made;
    } catch (const Error&) {
      // There is no memory: the op is named less precisely.
    }
  }
  frame_.step = 0;
  frame_.begun = false;
  frame_.blocks = Blocks::kNothing;
  frame_.poisoned = false;
  frame_.check = true;
  frame_.origin_step = kNone;
}

void Diagnosis::end_call(const Entry& entry) {
  begun_ = looking_ = false;
  if (frame_.origin_step != kNone && finding_ == ~uint64_t{0} && failure_.empty()) {
    finding_ = uint64_t{entry.node} << kNodeBits | frame_.origin_step;
    CompiledFunction::StepText text = unfused_->describe_step(frame_.origin_step);
    what_ = cat(text.what, ": first result that is not finite, from finite inputs");
    at_ = std::move(text.at);
  }
  name_parameter(entry);
  unfused_ = nullptr;
  arena_ = nullptr;
}

void Diagnosis::look_at_parameters() {
  looking_ = true;
  const size_t parameters = source_->parameters.size();
  const auto bytes = static_cast<int64_t>(parameters * sizeof(uint32_t));
  try {
    flags_ = laid_.device->memory().host_memory(bytes);
  } catch (const Error& error) {
    flags_ = nullptr;
    return keep(error);
  }
  auto* flags = reinterpret_cast<uint32_t*>(flags_.get());
  laid_.device->memory().host_access(HostAccess::kWrite, flags, bytes);
  std::fill_n(flags, parameters, 0);
  for (uint32_t p = 0; p < parameters; ++p) {
    const Type& type = source_->types[p];
    if (!is_float(type.dtype)) continue;
    laid_.device->stream().check_finite(type.dtype, frame_.bases[p], type.elements(), flags + p);
  }
}

bool Diagnosis::landed(Turn& turn) {
  if (!marked_) mark_ = turn.stream.mark();
  std::shared_ptr<const Error> failure;
  marked_ = turn.stream.reached(mark_, &failure) == Progress::kPending;
  if (failure != nullptr) keep(*failure);
  return !marked_;
}

void Diagnosis::name_parameter(const Entry& entry) {
  if (flags_ == nullptr || !failure_.empty()) return;
  const auto* flags = reinterpret_cast<const uint32_t*>(flags_.get());
  const size_t parameters = source_->parameters.size();
  laid_.device->memory().host_access(HostAccess::kRead, flags,
                                     static_cast<int64_t>(parameters * sizeof(uint32_t)));
  for (uint32_t p = 0; p < parameters && finding_ == ~uint64_t{0}; ++p) {
    if (flags[p] == 0) continue;
    finding_ = kParameter | uint64_t{entry.node} << kNodeBits | p;
    what_ = cat("\"", source_->parameters[p].name, "\" of ", to_string(source_->types[p]),
                ": not finite before the step");
  }
}

void Diagnosis::conclude() {
  const uint64_t lowest = gate_->least();
  is_origin_ = lowest == finding_ && lowest != ~uint64_t{0};
  const Plan& plan = *laid_.plan;
  if (!is_origin_) {
    Error error(ErrorKind::kInvalid, "step: its result is not finite: nothing was committed",
                {.program = plan.name, .device = laid_.device->name()});
    if (!failure_.empty()) error.add_context(failure_);
    error_ = std::make_shared<const Error>(std::move(error));
    return;
  }
  error_ = std::make_shared<const Error>(
      ErrorKind::kInvalid, cat(what_, ": nothing was committed"),
      Where{.program = plan.name,
            .node = plan.nodes[(lowest & ~kParameter) >> kNodeBits].name,
            .device = laid_.device->name(),
            .at = at_},
      "lower the learning rate, clip gradients, or look at this input");
}

namespace {

class Unfusing {
 public:
  // `commit_begin`, if set, moves with its node.
  std::shared_ptr<const Function> run(const std::shared_ptr<const Function>& fused,
                                      NodeId* commit_begin) {
    auto plain = std::make_shared<Function>(*fused);
    plain->nodes.clear();
    plain->infos.clear();
    plain->types.resize(fused->parameters.size());
    std::vector<ValueId> now(fused->types.size());
    for (ValueId v = 0; v < fused->parameters.size(); ++v) now[v] = v;
    const NodeId commit = commit_begin == nullptr ? kNone : *commit_begin;
    for (NodeId id = 0; id < fused->nodes.size(); ++id) {
      if (id == commit) *commit_begin = static_cast<NodeId>(plain->nodes.size());
      append(*plain, *fused, id, now, 0);
    }
    if (commit != kNone && commit >= fused->nodes.size())
      *commit_begin = static_cast<NodeId>(plain->nodes.size());
    for (ValueId& value : plain->results) value = now[value];
    return plain;
  }

 private:
  // Appends the node as it is, or the chain that it stands for. `now`: by value of `from`, the new
  // value. The locations of `from` begin at `first_loc` in `plain`.
  void append(Function& plain, const Function& from, NodeId id, std::vector<ValueId>& now,
              uint32_t first_loc) {
    const Node& node = from.nodes[id];
    if (node.op != Op::fusion) {
      const ValueId first = plain.value_count();
      append_alone(plain, from, id, now, first_loc);
      for (uint32_t r = 0; r < node.results; ++r) now[node.first_result + r] = first + r;
      return;
    }
    const Function& chain = *node.body;
    std::vector<ValueId> inside(chain.types.size());
    for (ValueId p = 0; p < chain.parameters.size(); ++p) inside[p] = now[node.inputs[p]];
    const uint32_t first_of_chain = append_locs(plain, chain);
    for (NodeId b = 0; b < chain.nodes.size(); ++b) append(plain, chain, b, inside, first_of_chain);
    for (uint32_t r = 0; r < node.results; ++r)
      now[node.first_result + r] = inside[chain.results[r]];
  }

  // A chain has a table of locations of its own. Returns where it begins in that of `plain`.
  static uint32_t append_locs(Function& plain, const Function& chain) {
    const auto first = static_cast<uint32_t>(plain.locs.size());
    for (LocEntry entry : chain.locs) {
      if (entry.parent != kNone) entry.parent += first;
      plain.locs.push_back(std::move(entry));
    }
    return first;
  }

  void append_alone(Function& plain, const Function& from, NodeId id,
                    const std::vector<ValueId>& now, uint32_t first_loc) {
    Node node = from.nodes[id];
    for (ValueId& input : node.inputs) input = now[input];
    const ValueId first = node.first_result;
    node.first_result = plain.value_count();
    for (uint32_t r = 0; r < node.results; ++r) plain.types.push_back(from.types[first + r]);
    NodeInfo info = id < from.infos.size() ? from.infos[id] : NodeInfo{};
    if (info.loc != kNone) info.loc += first_loc;
    plain.infos.push_back(info);
    if (node.body != nullptr) {
      std::shared_ptr<const Function>& body = bodies_[node.body.get()];
      if (body == nullptr) body = run(node.body, nullptr);
      node.body = body;
    }
    plain.nodes.push_back(std::move(node));
  }

  std::map<const Function*, std::shared_ptr<const Function>> bodies_;
};

}  // namespace

void add_unfused(const LaidOutShare& share, CompileJob& job) {
  for (const Entry& entry : share.entries) {
    if (entry.kind != EntryKind::kCall || !entry.first) continue;
    const uint32_t function = share.plan->nodes[entry.node].function;
    job.add(function, share.device->compiler(), unfuse(share.plan->functions[function]));
  }
}

LocalFunction unfuse(const LocalFunction& local) {
  LocalFunction result = local;
  result.unfused = true;
  result.sections.clear();
  result.function = Unfusing().run(local.function, &result.commit_begin);
  return result;
}

}  // namespace gangway
