#include "ir/plan/positions.h"

#include <algorithm>

#include "ir/plan/plan_check.h"
#include "ir/plan/step_map.h"
#include "runtime/base/error.h"

namespace gangway {

namespace {

// How many sections come before the commit point.
uint32_t sections_before_commit(const LocalFunction& local) {
  if (local.sections.empty()) return 0;
  const auto behind =
      std::partition_point(local.sections.begin(), local.sections.end(),
                           [commit = commit_step(local)](const LocalFunction::Section& section) {
                             return section.begin < commit;
                           });
  return static_cast<uint32_t>(behind - local.sections.begin());
}

}  // namespace

Positions::Positions(const Plan& plan) : spans_(plan.slices.size()), counts_(plan.slices.size()) {
  std::vector<uint32_t> before;  // Indexed by function.
  for (const LocalFunction& local : plan.functions) {
    before.push_back(sections_before_commit(local));
    std::vector<int64_t>& until = until_ns_.emplace_back(1, 0);
    for (const LocalFunction::Section& section : local.sections)
      until.push_back(until.back() + section.modelled_ns);
  }
  for (const PlanSlice& slice : plan.slices) ranks_.push_back(slice.ranks_per_device);
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const PlanNode& node = plan.nodes[n];
    firsts_.push_back(total_);
    switch (node.kind) {
      case PlanNodeKind::kCall:
      case PlanNodeKind::kCommit: {
        const bool commits = node.kind == PlanNodeKind::kCommit;
        const uint32_t function = commits ? plan.nodes[node.call].function : node.function;
        const auto all = static_cast<uint32_t>(plan.functions[function].sections.size());
        const SectionRange sections = commits
                                          ? SectionRange{before[function], all - before[function]}
                                          : SectionRange{0, before[function]};
        add(node.slice, {.node = n, .function = function, .sections = sections},
            std::max(1u, sections.count));
        break;
      }
      case PlanNodeKind::kSend:
      case PlanNodeKind::kReceive:
      case PlanNodeKind::kSource: add(node.slice, {.node = n}, 1); break;
      case PlanNodeKind::kGate:
        gates_ = counts_;
        for (uint32_t slice = 0; slice < slices(); ++slice) add(slice, {.node = n}, 1);
        break;
    }
    total_ += node.kind == PlanNodeKind::kGate ? 1 : of(n, node.slice).count;
  }
}

void Positions::add(uint32_t slice, Span span, uint32_t count) {
  GW_REQUIRE(count <= kPositionsMax - std::max(counts_[slice], total_), "plan: slice ", slice,
             " has more than ", kPositionsMax,
             " positions: expected fewer calls, or functions of fewer sections");
  if (!spans_[slice].empty()) {
    const Span& last = spans_[slice].back();
    span.before_ns = last.before_ns + span_ns(last, last.sections.count);
  }
  span.first = counts_[slice];
  counts_[slice] += count;
  spans_[slice].push_back(span);
}

// Modelled time of the span's first `sections` sections.
int64_t Positions::span_ns(const Span& span, uint32_t sections) const {
  if (span.function == kNone) return 0;
  const std::vector<int64_t>& until = until_ns_[span.function];
  const uint32_t end = span.sections.first + std::min(sections, span.sections.count);
  return until[end] - until[span.sections.first];
}

// The last position's span also for the end of the slice.
const Positions::Span& Positions::span_at(uint32_t slice, uint32_t position) const {
  const auto behind =
      std::partition_point(spans_[slice].begin(), spans_[slice].end(),
                           [&](const Span& span) { return span.first <= position; });
  return *(behind - 1);
}

const Positions::Span* Positions::span_of(uint32_t node, uint32_t slice) const {
  const std::vector<Span>& spans = spans_[slice];
  const auto found = std::partition_point(spans.begin(), spans.end(),
                                          [&](const Span& span) { return span.node < node; });
  return found == spans.end() || found->node != node ? nullptr : &*found;
}

Positions::Range Positions::of(uint32_t node, uint32_t slice) const {
  const Span* span = span_of(node, slice);
  if (span == nullptr) return {};
  const bool last = span == &spans_[slice].back();
  const uint32_t end = last ? counts_[slice] : (span + 1)->first;
  return {span->first, end - span->first};
}

SectionRange Positions::sections(uint32_t node, uint32_t slice) const {
  const Span* span = span_of(node, slice);
  return span == nullptr ? SectionRange{} : span->sections;
}

Positions::Range Positions::in_order(uint32_t node) const {
  const uint32_t end = node + 1 < firsts_.size() ? firsts_[node + 1] : total_;
  return {firsts_[node], end - firsts_[node]};
}

uint32_t Positions::node_at(uint32_t slice, uint32_t position) const {
  GW_ASSERT(position < counts_[slice], "position ", position, " of ", counts_[slice]);
  return span_at(slice, position).node;
}

int64_t Positions::before_ns(uint32_t slice, uint32_t position) const {
  if (position == 0) return 0;
  const Span& span = span_at(slice, position);
  return span.before_ns + span_ns(span, position - span.first);
}

int64_t Positions::modelled_ns(uint32_t slice, Range range) const {
  GW_ASSERT(range.first <= counts_[slice] && range.count <= counts_[slice] - range.first,
            "positions ", range.first, " to ", range.first + range.count, " of ", counts_[slice]);
  return ranks_[slice] *
         (before_ns(slice, range.first + range.count) - before_ns(slice, range.first));
}

}  // namespace gangway
