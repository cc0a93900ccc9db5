#include "ir/transforms/rewrite/body_uses.h"

#include <algorithm>
#include <map>

#include "ir/graph/bodies.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Carries that need one another in a long chain are kept as they are: dead ones cost time, and
// nothing else.
constexpr int kRoundsMax = 16;

class BodyMap {
 public:
  explicit BodyMap(const std::function<Function(Function)>& pass) : pass_(pass) {}

  Function run(Function function) {
    for (Node& node : function.nodes) {
      if (shares_body(node.op)) node.body = body(node.body);
    }
    return function;
  }

 private:
  std::shared_ptr<const Function> body(const std::shared_ptr<const Function>& of) {
    auto found = done_.find(of.get());
    if (found != done_.end()) return found->second;
    auto made = std::make_shared<const Function>(pass_(run(*of)));
    return done_[of.get()] = std::move(made);
  }

  const std::function<Function(Function)>& pass_;
  std::map<const Function*, std::shared_ptr<const Function>> done_;
};

}  // namespace

std::vector<bool> BodyUses::live_values(const Function& function) {
  return live_values(function, std::vector<bool>(function.results.size(), true));
}

std::vector<bool> BodyUses::live_values(const Function& function, const std::vector<bool>& wanted) {
  std::vector<bool> live(function.types.size(), false);
  for (size_t r = 0; r < function.results.size(); ++r) {
    if (wanted[r]) live[function.results[r]] = true;
  }
  for (auto id = static_cast<NodeId>(function.nodes.size()); id-- > 0;) {
    const Node& node = function.nodes[id];
    if (!any_result(live, node)) continue;
    if (!shares_body(node.op)) {
      for (ValueId input : node.inputs) live[input] = true;
      continue;
    }
    const auto first = live.begin() + node.first_result;
    const BodyUse& use = used_by(node, std::vector<bool>(first, first + node.results));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (use.operands[i]) live[node.inputs[i]] = true;
    }
  }
  return live;
}

const BodyUse& BodyUses::used_by(const Node& node, const std::vector<bool>& read) {
  const Key key{node.body.get(), ScanLayout(node).carries, read};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, find_use(node, read)).first->second;
}

BodyUse BodyUses::find_use(const Node& node, const std::vector<bool>& read) {
  const Function& body = *node.body;
  const size_t carries = ScanLayout(node).carries;
  BodyUse use{.operands = std::vector<bool>(node.inputs.size(), true), .results = read};
  for (int round = 0; round < kRoundsMax && body.nodes.size() <= visits_left_; ++round) {
    visits_left_ -= body.nodes.size();
    const std::vector<bool> live = live_values(body, use.results);
    std::copy_n(live.begin(), use.operands.size(), use.operands.begin());
    bool again = false;
    for (size_t c = 0; c < carries; ++c) {
      if (use.operands[c] && !use.results[c]) use.results[c] = again = true;
      // Its first value, which is also the result if there are no iterations.
      if (use.results[c]) use.operands[c] = true;
    }
    if (!again) return use;
  }
  return {.operands = std::vector<bool>(node.inputs.size(), true),
          .results = std::vector<bool>(node.results, true)};
}

Function keep_results(Function function, const std::vector<bool>& kept) {
  std::vector<ValueId> results;
  std::vector<std::string> names;
  for (size_t r = 0; r < function.results.size(); ++r) {
    if (!kept[r]) continue;
    results.push_back(function.results[r]);
    names.push_back(std::move(function.result_names[r]));
  }
  function.results = std::move(results);
  function.result_names = std::move(names);
  return function;
}

Function keep_parameters(const Function& function, const std::vector<bool>& kept) {
  if (std::find(kept.begin(), kept.end(), false) == kept.end()) return function;
  Function made = function;
  made.parameters.clear();
  made.types.clear();
  std::vector<ValueId> now(function.types.size(), kNone);
  for (ValueId id = 0; id < function.types.size(); ++id) {
    const bool is_parameter = id < function.parameters.size();
    if (is_parameter && !kept[id]) continue;
    now[id] = made.value_count();
    made.types.push_back(function.types[id]);
    if (is_parameter) made.parameters.push_back(function.parameters[id]);
  }
  const auto renumber = [&](ValueId& id) {
    GW_ASSERT(now[id] != kNone, "parameter ", id, " of \"", function.name, "\" is used");
    id = now[id];
  };
  for (Node& node : made.nodes) {
    for (ValueId& input : node.inputs) renumber(input);
    if (node.results > 0) renumber(node.first_result);
  }
  for (ValueId& result : made.results) renumber(result);
  return made;
}

Function map_bodies(Function function, const std::function<Function(Function)>& pass) {
  return BodyMap(pass).run(std::move(function));
}

}  // namespace gangway
