#include "client/failed_runs.h"

#include <algorithm>
#include <optional>

namespace gangway::internal {
namespace {

using Names = std::set<std::string>;

bool meet(const Names& a, const Names& b) {
  return std::ranges::any_of(a, [&](const std::string& name) { return b.contains(name); });
}

// Chains that update one of these states.
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

namespace {

// Null: the program updates none, and its runs do not depend on one another.
std::shared_ptr<const UpdatedStates> updated_states(const ExecutableImpl& executable) {
  UpdatedStates updated{.program = executable.program.name,
                        .names = {},
                        .untold_chains = executable.session->untold_chains};
  for (const ProgramNode& node : executable.program.nodes) {
    for (const StateUpdate& update : node.updates)
      updated.names.insert(executable.program.nodes[update.state].name);
  }
  if (updated.names.empty()) return nullptr;
  return std::make_shared<const UpdatedStates>(std::move(updated));
}

}  // namespace

void begin_first_chain(ExecutableImpl& executable) {
  executable.updated = updated_states(executable);
  const std::lock_guard lock(executable.session->notify.mutex);
  begin_chain(executable);
}

void begin_chain(ExecutableImpl& executable) {
  executable.chain = std::make_shared<Chain>();
  if (executable.updated == nullptr) return;
  executable.chain->updates = executable.updated;
  std::vector<std::shared_ptr<Chain>>& chains = executable.slices[0]->chains;
  // Only the slice has these, so that none of their runs is under way.
  std::erase_if(chains, [](const std::shared_ptr<Chain>& chain) {
    return chain.use_count() == 1 && (!chain->failed || chain->told);
  });
  chains.push_back(executable.chain);
}

Chain::~Chain() { note_told(*this); }

void note_failed(Chain& chain, RunId run, const Error& error) {
  if (chain.updates == nullptr) return;
  if (chain.failed && chain.failed_run <= run) return;
  // The error of a run behind a failed one repeats the failed one's, so the user knows it already.
  const bool is_known =
      chain.failed && chain.failed->message().find(error.message()) != std::string::npos;
  const bool was_untold = chain.failed && !chain.told;
  if (!is_known) chain.told = false;
  chain.failed = error;
  chain.failed_run = run;
  if (!was_untold && !chain.told) ++*chain.updates->untold_chains;
}

void note_told(Chain& chain) {
  if (chain.failed && !chain.told) --*chain.updates->untold_chains;
  chain.told = true;
}

void tell_of_failed_runs(const ExecutableImpl& executable) {
  if (*executable.session->untold_chains == 0) return;
  tell_of_failed_runs(*executable.slices[0], states_of(executable.program));
}

void tell_of_failed_runs(SliceImpl& slice, const Names& states) {
  if (*slice.session->untold_chains == 0) return;
  const std::lock_guard lock(slice.session->notify.mutex);
  for (const auto& chain : chains_of(slice, states)) {
    if (!chain->failed || chain->told) continue;
    note_told(*chain);
    throw as_told_later(*chain);
  }
}

std::vector<std::shared_ptr<Outcome>> last_runs(SliceImpl& slice, const Names& states) {
  const std::lock_guard lock(slice.session->notify.mutex);
  std::vector<std::shared_ptr<Outcome>> runs;
  for (const auto& chain : chains_of(slice, states)) {
    // A run that nobody holds has ended.
    if (auto last = chain->last_run.lock(); last != nullptr && !last->done)
      runs.push_back(std::move(last));
  }
  return runs;
}

void wait_for_ends(Notify& notify, const std::vector<std::shared_ptr<Outcome>>& runs) {
  if (runs.empty()) return;
  notify.wait(
      [&] { return std::ranges::all_of(runs, [](const auto& outcome) { return outcome->done; }); });
}

}  // namespace gangway::internal
