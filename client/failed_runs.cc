#include "client/failed_runs.h"

#include <algorithm>
#include <optional>

namespace gangway::internal {
namespace {

using Names = std::set<std::string>;

bool meet(const Names& a, const Names& b) {
  return std::ranges::any_of(a, [&](const std::string& name) { return b.contains(name); });
}

// Those that update one of these states.
std::vector<std::shared_ptr<Chain>> chains_of(const SliceImpl& slice, const Names& states) {
  std::vector<std::shared_ptr<Chain>> chains = slice.chains;
  std::erase_if(chains, [&](const auto& chain) { return !meet(chain->updates->names, states); });
  return chains;
}

Error as_told_later(const Chain& chain) {
  const Error& why = *chain.failed;
  return {
      why.kind(),
      cat("run of \"", chain.updates->program, "\": one that nobody waited for has failed, and ",
          "those enqueued behind it computed nothing: ", why.message()),
      why.where(),
      why.hint().empty() ? "the states are as the last run before it left them; the next run "
                           "goes on from there"
                         : why.hint()};
}

}  // namespace

Names states_of(const Program& program) {
  Names names;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kState) names.insert(node.name);
  }
  return names;
}

std::shared_ptr<const UpdatedStates> updated_states(const ExecutableImpl& executable) {
  UpdatedStates updated{.program = executable.program.name,
                        .names = {},
                        .any_failed = executable.client->any_run_failed};
  for (const ProgramNode& node : executable.program.nodes) {
    for (const StateUpdate& update : node.updates)
      updated.names.insert(executable.program.nodes[update.state].name);
  }
  if (updated.names.empty()) return nullptr;
  return std::make_shared<const UpdatedStates>(std::move(updated));
}

void begin_chain(ExecutableImpl& executable) {
  executable.chain = std::make_shared<Chain>();
  if (executable.updated == nullptr) return;
  executable.chain->updates = executable.updated;
  std::vector<std::shared_ptr<Chain>>& chains = executable.slices[0]->chains;
  // Nobody else has these, so that no run of theirs is under way.
  std::erase_if(chains, [](const std::shared_ptr<Chain>& chain) {
    return chain.use_count() == 1 && (!chain->failed || chain->told);
  });
  chains.push_back(executable.chain);
}

void note_failed(Chain& chain, const Error& error) {
  if (chain.updates == nullptr || chain.failed) return;
  chain.failed = error;
  *chain.updates->any_failed = true;
}

void tell_of_failed_runs(const ExecutableImpl& executable) {
  if (*executable.client->any_run_failed)
    tell_of_failed_runs(*executable.slices[0], states_of(executable.program));
}

void tell_of_failed_runs(SliceImpl& slice, const Names& states) {
  if (!*slice.client->any_run_failed) return;
  const std::lock_guard lock(slice.client->notify.mutex);
  for (const auto& chain : chains_of(slice, states)) {
    if (!chain->failed || chain->told) continue;
    chain->told = true;
    throw as_told_later(*chain);
  }
}

std::vector<std::shared_ptr<Outcome>> last_runs(SliceImpl& slice, const Names& states) {
  const std::lock_guard lock(slice.client->notify.mutex);
  std::vector<std::shared_ptr<Outcome>> runs;
  for (const auto& chain : chains_of(slice, states)) {
    // One that nobody holds has ended.
    if (auto last = chain->last_run.lock(); last != nullptr && !last->done)
      runs.push_back(std::move(last));
  }
  return runs;
}

void wait_until_ended(Notify& notify, const std::vector<std::shared_ptr<Outcome>>& runs) {
  if (runs.empty()) return;
  notify.wait(
      [&] { return std::ranges::all_of(runs, [](const auto& outcome) { return outcome->done; }); });
}

}  // namespace gangway::internal
