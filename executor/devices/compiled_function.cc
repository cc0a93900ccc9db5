#include "executor/devices/compiled_function.h"

#include <algorithm>
#include <utility>

namespace gangway {

uint32_t CompiledFunction::add_need(const std::string& axes, int64_t bytes, CollectiveKind kind,
                                    const std::string& at) {
  auto need = std::ranges::find(needs_, axes, &CollectiveNeed::axes);
  if (need == needs_.end()) need = needs_.insert(need, {.axes = axes});
  need->bytes_max = std::max(need->bytes_max, bytes);
  if (!need->kinds.has(kind)) need->at[static_cast<size_t>(kind)] = at;
  need->kinds.add(kind);
  return static_cast<uint32_t>(need - needs_.begin());
}

void CompiledFunction::take_outcome(const Collective& collective, uint32_t step,
                                    CallFrame& frame) const {
  if (const auto failure = collective.failure(); failure != nullptr) {
    auto error = std::make_shared<Error>(*failure);
    error->add_where({.at = describe_step(step).at});
    frame.error = std::move(error);
    frame.poisoned = true;
  }
  if (collective.poisoned()) frame.poisoned = frame.peer_poisoned = true;
}

}  // namespace gangway
