#include "client/objects.h"

#include <cstring>

#include "client/failed_runs.h"
#include "ir/wire/wire.h"

namespace gangway::internal {

void wait_for(Notify& notify, Outcome& outcome) {
  notify.wait([&] { return outcome.done; });
  if (!outcome.error) return;
  {
    const std::lock_guard lock(notify.mutex);
    note_told(*outcome.chain);
  }
  throw *outcome.error;
}

bool is_done(Notify& notify, Outcome& outcome) {
  const std::lock_guard lock(notify.mutex);
  return outcome.done;
}

RunId ExecutableImpl::next_in_chain(RunId run, Outcome& outcome) {
  const std::lock_guard lock(session->notify.mutex);
  if (chain->told) begin_chain(*this);
  outcome.chain = chain;
  outcome.chain->last_run = outcome.weak_from_this();
  outcome.run = run;
  return std::exchange(outcome.chain->last, run);
}

SliceImpl::~SliceImpl() {
  if (is_held) return;
  session->release_slice(id);
}

std::vector<std::string> SliceImpl::note_states(const CompiledPlan& plan, const Program& program) {
  const std::lock_guard lock(mutex);
  std::vector<std::string> ignored;
  for (const PlanPort& state : plan.states) {
    const uint32_t node = program.find(NodeKind::kState, state.name);
    GW_ASSERT(node != kNone, "the plan has a state that the program lacks: ", state.name);
    const Hash128 begins = values_hash(*program.functions[program.nodes[node].function]);
    const auto [known, is_new] =
        states.try_emplace(state.name, State{state.type, program.nodes[node].stacked, begins});
    if (!is_new && known->second.begins != begins) ignored.push_back(state.name);
  }
  return ignored;
}

ExecutableImpl::~ExecutableImpl() {
  release_placed();
  if (is_held) return;
  session->release_plan(plan.plan);
}

// Arrays that are gone are dropped when the list would grow.
void ExecutableImpl::note_placed(const std::shared_ptr<ArrayImpl>& array) {
  const std::lock_guard lock(session->notify.mutex);
  if (placed.size() == placed.capacity())
    std::erase_if(placed, [](const auto& weak) { return weak.expired(); });
  placed.push_back(array);
}

void ExecutableImpl::release_placed() {
  std::vector<std::weak_ptr<ArrayImpl>> arrays;
  {
    const std::lock_guard lock(session->notify.mutex);
    arrays.swap(placed);
  }
  for (const auto& weak : arrays) {
    if (const auto array = weak.lock()) array->release_placed(plan.plan);
  }
}

ArrayImpl::~ArrayImpl() {
  if (session == nullptr) return;
  std::vector<ArrayId> names;
  if (outcome != nullptr) names.push_back(id);
  for (const auto& [where, copy] : placed) names.push_back(copy->id);
  for (ArrayId name : names) session->release(name);
}

std::shared_ptr<PlacedCopy> ArrayImpl::placed_copy(PlanId plan, uint32_t input) const {
  const auto found = placed.find({plan, input});
  if (found == placed.end()) return nullptr;
  const std::lock_guard outcomes(session->notify.mutex);
  return found->second->failed ? nullptr : found->second;
}

void ArrayImpl::release_placed(PlanId plan) {
  std::vector<ArrayId> names;
  {
    const std::lock_guard lock(mutex);
    std::erase_if(placed, [&](const auto& entry) {
      const bool goes = entry.first.first == plan;
      if (goes) names.push_back(entry.second->id);
      return goes;
    });
  }
  for (const ArrayId name : names) session->free(name);
}

ArrayImpl::Placed ArrayImpl::place(PlanId plan, uint32_t input) {
  {
    const std::lock_guard lock(mutex);
    if (auto copy = placed_copy(plan, input)) return {std::move(copy)};
  }
  Bulk::PartPtr part = session->bulk.heap().take(type.bytes());
  std::memcpy(part->data(), tensor->bytes.data(), tensor->bytes.size());
  session->bulk.take_place();
  const std::lock_guard lock(mutex);
  if (auto copy = placed_copy(plan, input)) {  // Another thread has put it meanwhile.
    session->bulk.give_back_place();
    return {std::move(copy)};
  }
  std::shared_ptr<PlacedCopy>& copy = placed[{plan, input}];
  if (copy != nullptr) session->free(copy->id);
  copy = std::make_shared<PlacedCopy>(PlacedCopy{session->new_array(), {}});
  HostTransferFrame put{.kind = HostTransferKind::kPut,
                        .at = {part->segment(), part->offset(), part->bytes()},
                        .array = copy->id,
                        .plan = plan,
                        .input = input};
  // The error of a failed put shows in the run that names it.
  session->bulk.send(
      std::move(put), std::move(part),
      [copy = copy](const HostTransferDoneFrame& ended) { copy->failed = ended.error; });
  return {copy, true};
}

}  // namespace gangway::internal
