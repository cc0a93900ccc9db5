#include "programs/models/activations.h"

#include <algorithm>
#include <array>
#include <set>

namespace gangway::programs {
namespace {

constexpr std::array<std::string_view, 13> kNames = {
    "embedded", "residual", "attn.in",  "attn.mixed", "attn.out", "ffn.in", "ffn.hidden",
    "ffn.out",  "moe.in",   "moe.rows", "moe.out",    "final",    "logits"};

std::string known_names() {
  std::string text;
  for (std::string_view name : kNames) text += cat(text.empty() ? "" : ", ", name);
  return text;
}

}  // namespace

void require_known(const ActivationRules& rules) {
  for (const PlacementRule& rule : rules) {
    const bool is_known = std::ranges::any_of(
        kNames, [&](std::string_view name) { return matches(rule.pattern, name); });
    GW_REQUIRE(is_known, "transformer: the rule \"", rule.pattern,
               "\" matches no activation; there are: ", known_names());
  }
}

std::vector<std::string> axes_that_divide(const Mesh& mesh, const std::vector<std::string>& axes,
                                          int64_t amount) {
  std::vector<std::string> fitting;
  for (const std::string& axis : axes) {
    const int at = mesh.axis(axis);
    const int64_t size = at < 0 ? 1 : mesh.axes[static_cast<size_t>(at)].size;
    if (amount % size != 0) continue;
    amount /= size;
    fitting.push_back(axis);
  }
  return fitting;
}

Value placed(const ActivationRules& rules, std::string_view name, Value value, Loc loc) {
  std::set<int> decided;
  for (const PlacementRule& rule : rules) {
    if (rule.placements.empty() || !matches(rule.pattern, name)) continue;
    if (!decided.insert(rule.priority).second) continue;
    value = value.builder().shard(value, rule.placements, rule.priority, loc);
  }
  return value;
}

}  // namespace gangway::programs
