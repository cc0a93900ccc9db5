// Devices give their parts to one another as they are, so that other axes take over what some axes
// do: cuts change their order, or an axis takes the place of others of the same total size.
//
// The places are: each dimension's moving cuts, what is partial, and what replicates. A step fills
// every place again with axes whose sizes have the same product. A dimension's new axes must cut it
// as the old ones did: part m stays part m.
#include <algorithm>

#include "ir/transforms/conversions/steps/step.h"

namespace gangway::conversions {
namespace {

// The moving axes of each place: the dimensions' in order, the partial ones, those that replicate.
std::vector<Axes> places_of(const Conversion& conversion, const Layout& at) {
  std::vector<Axes> places;
  for (size_t dim = 0; dim < at.cuts.size(); ++dim) {
    const std::span<const int> cuts = conversion.innermost(at, dim, conversion.movable(at, dim));
    places.emplace_back(cuts.begin(), cuts.end());
  }
  places.push_back(conversion.moving_partial(at));
  places.push_back(conversion.moving_replicated(at));
  return places;
}

// Fills places of these sizes with the axes in their order; empty where no axis ends with a place.
std::vector<Axes> filled(const Mesh& mesh, const std::vector<int64_t>& sizes, const Axes& axes) {
  std::vector<Axes> places(sizes.size());
  size_t next = 0;
  for (size_t place = 0; place < sizes.size(); ++place) {
    int64_t size = 1;
    while (size < sizes[place] && next < axes.size()) {
      size *= mesh.axes[static_cast<size_t>(axes[next])].size;
      places[place].push_back(axes[next++]);
    }
    if (size != sizes[place]) return {};
  }
  return places;
}

// Places without an order are listed once.
bool is_listed(const std::vector<Axes>& places) {
  return std::ranges::is_sorted(places[places.size() - 2]) &&
         std::ranges::is_sorted(places[places.size() - 1]);
}

bool parts_stay(const Conversion& conversion, const Layout& at, const std::vector<Axes>& before,
                const std::vector<Axes>& after) {
  for (size_t dim = 0; dim < at.cuts.size(); ++dim) {
    const int64_t rows = conversion.rows_cut_by(at, dim, before[dim].size());
    if (!cut_alike(conversion.mesh, rows, before[dim], after[dim])) return false;
  }
  return true;
}

Layout refilled(const Conversion& conversion, const Layout& at, const std::vector<Axes>& places) {
  Layout after = at;
  for (size_t dim = 0; dim < at.cuts.size(); ++dim) {
    after.cuts[dim].resize(conversion.kept[dim]);
    after.cuts[dim].insert(after.cuts[dim].end(), places[dim].begin(), places[dim].end());
  }
  std::erase_if(after.partial, [&](int axis) { return conversion.moves(axis); });
  const Axes& partial = places[at.cuts.size()];
  after.partial.insert(after.partial.end(), partial.begin(), partial.end());
  std::ranges::sort(after.partial);
  return after;
}

// Both lists of axes of the op. Axes that keep their place are left out: a place is walked in
// stretches of equal total size, and a stretch that a single axis fills before and after is not
// moved.
Step step_between(const Mesh& mesh, const std::vector<Axes>& before,
                  const std::vector<Axes>& after) {
  Step step{.op = Op::permute};
  const auto size = [&](int axis) { return mesh.axes[static_cast<size_t>(axis)].size; };
  for (size_t place = 0; place < before.size(); ++place) {
    for (size_t i = 0, j = 0; i < before[place].size();) {
      Axes from = {before[place][i++]}, to = {after[place][j++]};
      int64_t parts_from = size(from[0]), parts_to = size(to[0]);
      while (parts_from != parts_to) {
        const bool next_from = parts_from < parts_to;
        (next_from ? from : to).push_back(next_from ? before[place][i++] : after[place][j++]);
        (next_from ? parts_from : parts_to) *= size((next_from ? from : to).back());
      }
      if (from == to) continue;
      step.axes.insert(step.axes.end(), from.begin(), from.end());
      step.to.insert(step.to.end(), to.begin(), to.end());
    }
  }
  return step;
}

void offer_permute(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  const std::vector<Axes> before = places_of(conversion, at);
  std::vector<int64_t> sizes;
  sizes.reserve(before.size());
  for (const Axes& axes : before) sizes.push_back(size_of_axes(conversion.mesh, axes));
  const auto add = [&](const std::vector<Axes>& after) {
    if (after.empty() || after == before || !is_listed(after)) return;
    if (!parts_stay(conversion, at, before, after)) return;
    Step step = step_between(conversion.mesh, before, after);
    step.after = refilled(conversion, at, after);
    out.push_back(std::move(step));
  };
  if (conversion.exhaustive) {
    Axes axes = conversion.moving;
    do {
      add(filled(conversion.mesh, sizes, axes));
    } while (std::ranges::next_permutation(axes).found);
    return;
  }
  const std::vector<Axes> end = places_of(conversion, conversion.to);
  const bool fits = std::ranges::equal(
      end, sizes, {}, [&](const Axes& axes) { return size_of_axes(conversion.mesh, axes); });
  if (fits && (at.partial.empty() || at.reduction == conversion.to.reduction)) add(end);
}

int64_t permute_bytes(const Conversion& conversion, const Layout& before, const Step& /*step*/) {
  return conversion.local_bytes(before);
}

Attrs permute_attrs(const Mesh& mesh, const Step& step, const Dims& /*local_after*/) {
  return {
      {"axes", names_of(mesh, step.axes)}, {"to", names_of(mesh, step.to)}, {"shift", int64_t{0}}};
}

}  // namespace

const StepKind kPermute{Op::permute, true, offer_permute, permute_bytes, permute_attrs};

}  // namespace gangway::conversions
