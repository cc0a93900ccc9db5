#include "ir/transforms/conversions/plan_conversion.h"

#include <algorithm>
#include <array>
#include <set>

#include "ir/transforms/conversions/steps/step.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using conversions::Axes;
using conversions::Conversion;
using conversions::Layout;
using conversions::Step;
using conversions::StepKind;

// Role of one axis: the dimension that it cuts, or one of these.
constexpr int kNothing = -1, kPartialSum = -2;  // Other reductions follow below.
constexpr int kEnd = -2;                        // Ends a step in Length::sums.

std::vector<int> roles_of(const Mesh& mesh, const Layout& layout) {
  std::vector<int> roles(mesh.axes.size(), kNothing);
  for (size_t dim = 0; dim < layout.cuts.size(); ++dim) {
    for (const int axis : layout.cuts[dim])
      roles[static_cast<size_t>(axis)] = static_cast<int>(dim);
  }
  for (const int axis : layout.partial)
    roles[static_cast<size_t>(axis)] = kPartialSum - static_cast<int>(layout.reduction);
  return roles;
}

Conversion conversion_of(const Type& global, const Mesh& mesh, const Layout& from,
                         const Layout& to) {
  Conversion conversion{.global = global, .mesh = mesh, .to = to, .moving = {}, .kept = {}};
  std::vector<int> from_roles = roles_of(mesh, from), to_roles = roles_of(mesh, to);
  std::vector<bool> stays(mesh.axes.size());
  for (size_t axis = 0; axis < stays.size(); ++axis)
    stays[axis] = from_roles[axis] == to_roles[axis] && from_roles[axis] < 0;
  for (size_t dim = 0; dim < from.cuts.size(); ++dim) {
    const Axes &a = from.cuts[dim], &b = to.cuts[dim];
    const auto end = std::ranges::mismatch(a, b).in1;
    for (auto axis = a.begin(); axis != end; ++axis) stays[static_cast<size_t>(*axis)] = true;
    conversion.kept.push_back(static_cast<size_t>(end - a.begin()));
  }
  for (size_t axis = 0; axis < stays.size(); ++axis) {
    if (!stays[axis]) conversion.moving.push_back(static_cast<int>(axis));
  }
  conversion.exhaustive = conversion.moving.size() <= kAxesSearchedMax;
  return conversion;
}

// How long a path is, and what settles ties.
struct Length {
  int64_t cost_ps = 0;
  size_t steps = 0;
  std::vector<size_t> kinds;
  std::vector<int> sums;  // The reductions, in order: each step's axes, its dimension, kEnd.
  std::array<int64_t, ConversionCosts::kDistances> far_bytes = {};  // The farthest first; last 0.
  std::vector<int> choices;  // Axes and dimensions, so that one of two equal paths is chosen.
  friend auto operator<=>(const Length&, const Length&) = default;
};

class Search {
 public:
  Search(const Conversion& conversion, const Layout& from, const ConversionCosts& costs)
      : conversion_(conversion), from_(from), costs_(costs) {
    const std::vector<int> before = roles_of(conversion.mesh, from);
    const std::vector<int> after = roles_of(conversion.mesh, conversion.to);
    for (size_t axis = 0; axis < before.size(); ++axis)
      roles_.push_back({before[axis], after[axis], kNothing});
  }

  ConversionPath run(bool has_budget) {
    if (!has_budget) return in_legal_order();
    reach({}, from_, from_, {});
    for (size_t settled = 0; !next_.empty() && settled < kLayoutsMax; ++settled) {
      const auto [length, at] = *next_.begin();
      next_.erase(next_.begin());
      if (is_end(at)) return path_to(at);
      for (size_t kind = 0; kind < conversions::step_kinds().size(); ++kind) {
        for (Step& step : offers(*conversions::step_kinds()[kind], at))
          extend(length, at, kind, step);
      }
      rename(length, at);
    }
    return in_legal_order();
  }

  uint64_t edges_seen() const { return edges_seen_; }

 private:
  struct Reached {
    Length length;
    Layout before;
    Step step;
  };

  std::vector<Step> offers(const StepKind& kind, const Layout& at) {
    std::vector<Step> steps;
    kind.offer(conversion_, at, steps);
    edges_seen_ += steps.size();
    return steps;
  }

  // A replicated value is a partial maximum as it stands.
  bool is_end(const Layout& at) const {
    const Layout& to = conversion_.to;
    if (at.cuts != to.cuts) return false;
    if (at.partial == to.partial) return at.reduction == to.reduction;
    return to.reduction != Reduction::kSum && std::ranges::includes(to.partial, at.partial) &&
           (at.partial.empty() || at.reduction == to.reduction);
  }

  bool is_searched(const Layout& after) const {
    if (conversion_.exhaustive) return true;
    const std::vector<int> roles = roles_of(conversion_.mesh, after);
    for (size_t axis = 0; axis < roles.size(); ++axis) {
      if (std::ranges::count(roles_[axis], roles[axis]) == 0) return false;
    }
    return true;
  }

  int64_t cost_of(const StepKind& kind, const Layout& before, const Step& step) const {
    if (!kind.sends) return costs_.launch_ps;
    int64_t ps_per_byte = 0;
    for (const int axis : step.axes) {
      const auto a = static_cast<size_t>(axis);
      ps_per_byte = std::max(ps_per_byte, a < costs_.link_ps_per_byte.size()
                                              ? costs_.link_ps_per_byte[a]
                                              : ConversionCosts::kLinkPsPerByte);
    }
    const int64_t bytes = kind.bytes(conversion_, before, step);
    return costs_.latency_ps + conversions::bounded_product(bytes, ps_per_byte);
  }

  // How far apart members of the step lie that are farthest from one another.
  size_t distance_of(const Step& step) const {
    int farthest = 0;
    for (const int axis : step.axes) {
      const auto a = static_cast<size_t>(axis);
      if (a < costs_.distance.size()) farthest = std::max(farthest, costs_.distance[a]);
    }
    return static_cast<size_t>(farthest);
  }

  void extend(const Length& length, const Layout& at, size_t kind, Step& step) {
    if (!is_searched(step.after)) return;
    Length longer = length;
    const StepKind& of = *conversions::step_kinds()[kind];
    longer.cost_ps = std::min(longer.cost_ps + cost_of(of, at, step), INT64_MAX / 2);
    ++longer.steps;
    longer.kinds.push_back(kind);
    if (step.op == Op::all_reduce || step.op == Op::reduce_scatter) {
      longer.sums.insert(longer.sums.end(), step.axes.begin(), step.axes.end());
      longer.sums.insert(longer.sums.end(), {step.to_dim, kEnd});
    }
    if (const size_t distance = distance_of(step); distance > 0 && of.sends) {
      int64_t& far = longer.far_bytes[ConversionCosts::kDistances - 1 - distance];
      far = std::min(far + of.bytes(conversion_, at, step), INT64_MAX / 2);
    }
    for (const Axes* axes : {&step.axes, &step.to})
      longer.choices.insert(longer.choices.end(), axes->begin(), axes->end());
    longer.choices.insert(longer.choices.end(), {step.dim, step.to_dim});
    Layout after = step.after;
    reach(std::move(longer), at, std::move(after), std::move(step));
  }

  // A replicated value is a partial maximum (minimum) as it stands: another layout, and no step.
  void rename(const Length& length, const Layout& at) {
    const Reduction reduction = at.partial.empty() ? conversion_.to.reduction : at.reduction;
    if (reduction == Reduction::kSum) return;
    for (const Axes& axes : subsets(conversion_, conversion_.moving_replicated(at))) {
      Layout after = at;
      after.partial.clear();
      std::ranges::merge(at.partial, axes, std::back_inserter(after.partial));
      after.reduction = reduction;
      if (is_searched(after)) reach(length, at, std::move(after), {});
    }
  }

  void reach(Length length, const Layout& before, Layout after, Step step) {
    const auto found = reached_.find(after);
    if (found != reached_.end()) {
      if (found->second.length <= length) return;
      next_.erase({found->second.length, after});
    }
    next_.insert({length, after});
    reached_.insert_or_assign(std::move(after),
                              Reached{std::move(length), before, std::move(step)});
  }

  ConversionStep done(const Layout& before, const Step& step) const {
    const StepKind& kind = conversions::kind_of(step.op);
    const Mesh& mesh = conversion_.mesh;
    return {.op = step.op,
            .attrs = kind.attrs(mesh, step,
                                conversions::local_dims(conversion_.global, mesh, step.after)),
            .axes = step.axes,
            .dim = step.dim,
            .to_dim = step.to_dim,
            .after = conversions::sharding_of(mesh, step.after),
            .bytes = kind.bytes(conversion_, before, step)};
  }

  ConversionPath path_to(const Layout& end) const {
    ConversionPath path{.steps = {}, .cost_ps = reached_.at(end).length.cost_ps};
    for (const Layout* at = &end; *at != from_;) {
      const Reached& reached = reached_.at(*at);
      const bool is_step = !reached.step.axes.empty();  // Or the layout was renamed.
      if (is_step) path.steps.push_back(done(reached.before, reached.step));
      at = &reached.before;
    }
    std::ranges::reverse(path.steps);
    return path;
  }

  // From inside out each cut is gathered, then terms are reduced, then the new cuts follow.
  ConversionPath in_legal_order() {
    ConversionPath path;
    Layout at = from_;
    const Layout& to = conversion_.to;
    const auto take = [&](const StepKind& kind, const auto& is_wanted) {
      for (bool found = true; found;) {
        std::vector<Step> steps = offers(kind, at);
        const auto step = std::ranges::find_if(steps, is_wanted);
        found = step != steps.end();
        if (!found) return;
        path.cost_ps = std::min(path.cost_ps + cost_of(kind, at, *step), INT64_MAX / 2);
        path.steps.push_back(done(at, *step));
        at = step->after;
      }
    };
    take(conversions::kAllGather, [](const Step& step) { return step.axes.size() == 1; });
    take(conversions::kAllReduce,
         [&](const Step& step) { return conversion_.moving_partial(step.after).empty(); });
    take(conversions::kSlice, [&](const Step& step) {
      const auto dim = static_cast<size_t>(step.to_dim);
      const Axes &now = step.after.cuts[dim], &wanted = to.cuts[dim];
      return now.size() <= wanted.size() &&
             std::ranges::equal(now, std::span(wanted).first(now.size()));
    });
    take(conversions::kKeepFirst, [&](const Step& step) {
      return to.reduction == Reduction::kSum &&
             std::ranges::includes(to.partial, step.after.partial);
    });
    GW_ASSERT(is_end(at), "a conversion to ",
              to_string(conversion_.mesh, sharding_of(conversion_.mesh, to)), " ended elsewhere");
    return path;
  }

  const Conversion& conversion_;
  const Layout& from_;
  const ConversionCosts& costs_;
  std::vector<std::vector<int>> roles_;  // Indexed by axis: the roles that it may have on the way.
  std::map<Layout, Reached> reached_;
  std::set<std::pair<Length, Layout>> next_;
  uint64_t edges_seen_ = 0;
};

}  // namespace

const ConversionPath& ConversionPlanner::plan(const Type& global, const Sharding& from,
                                              const Sharding& to) {
  const Layout before = conversions::layout_of(global, mesh_, from);
  const Layout after = conversions::layout_of(global, mesh_, to);
  const auto [known, is_new] = known_.try_emplace({global.dtype, global.dims, before, after});
  if (is_new) {
    const Conversion conversion = conversion_of(global, mesh_, before, after);
    Search search(conversion, before, costs_);
    known->second = search.run(edges_seen_ < edges_max_);
    edges_seen_ += search.edges_seen();
  }
  return known->second;
}

}  // namespace gangway
