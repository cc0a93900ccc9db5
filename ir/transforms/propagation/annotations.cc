#include "ir/transforms/propagation/annotations.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/base/error.h"

namespace gangway {
namespace {

std::string said_at(const Function& global, const Annotation& annotation) {
  return cat("{", global.mesh.axes[static_cast<size_t>(annotation.axis)].name, ": ",
             to_string(annotation.placement), "} at ", where(global, annotation.node));
}

Error conflict(const Function& global, const Annotation& first, const Annotation& second) {
  const ValueId value = global.nodes[second.node].inputs[0];
  return Error(ErrorKind::kInvalid,
               cat("sharding: two annotations of %", value, " ", to_string(global.types[value]),
                   " disagree: ", said_at(global, first), ", and ", said_at(global, second)),
               {.at = line_of(global, second.node)},
               "remove one of them, or give the one that matters less a larger priority number, so "
               "that it is looked at later: then the value is converted between them");
}

bool is_made_again(const Function& global, NodeId maker) {
  return maker != kNone && row(global.nodes[maker].op).made_again;
}

// An annotation speaks of the operand too: a `constrain` of a `constrain`, or two of one value,
// that place it differently along an axis (cut in two ways, or cut and whole) leave open which is
// meant.
void require_agreement(const Function& global, const std::vector<Annotation>& annotations) {
  using Key = std::tuple<ValueId, int, int>;  // Value, axis, priority.
  std::map<Key, const Annotation*> said;
  const std::vector<NodeId> makers = producers(global);
  for (const Annotation& annotation : annotations) {
    if (annotation.node == kNone) continue;
    for (ValueId value : {global.nodes[annotation.node].inputs[0], annotation.value}) {
      if (is_made_again(global, makers[value])) continue;
      const Key key{value, annotation.axis, annotation.priority};
      const auto [at, is_new] = said.try_emplace(key, &annotation);
      if (is_new || at->second->placement == annotation.placement) continue;
      throw conflict(global, *at->second, annotation);
    }
  }
}

class Collector {
 public:
  explicit Collector(const Function& global) : global_(global) {}

  void add_parameters(const std::vector<Sharding>& shardings) {
    for (ValueId p = 0; p < global_.parameters.size(); ++p) {
      for (size_t axis = 0; axis < shardings[p].size(); ++axis) {
        if (shardings[p][axis].kind == PlacementKind::kShard)
          add({p, kNone, static_cast<int>(axis), shardings[p][axis], priority_of(p, axis)});
      }
    }
  }

  void add_constraints() {
    for (NodeId id = 0; id < global_.nodes.size(); ++id) {
      const Node& node = global_.nodes[id];
      if (node.op != Op::constrain) continue;
      const auto placements = parse_axis_placements(node.attrs.text("placements"));
      GW_ASSERT(placements.has_value(), "a constrain that the verifier would not accept");
      const auto priority = static_cast<int>(node.attrs.integer("priority"));
      for (const auto& [name, placement] : *placements)
        add({node.first_result, id, global_.mesh.axis(name), placement, priority});
    }
  }

  void add_results(const std::vector<Sharding>& shardings) {
    for (size_t r = 0; r < shardings.size() && r < global_.results.size(); ++r) {
      for (size_t axis = 0; axis < shardings[r].size(); ++axis) {
        if (shardings[r][axis].kind == PlacementKind::kShard)
          add({global_.results[r], kNone, static_cast<int>(axis), shardings[r][axis],
               kResultPriority});
      }
    }
  }

  std::vector<Annotation> take() {
    std::ranges::stable_sort(annotations_, {}, &Annotation::priority);
    return std::move(annotations_);
  }

 private:
  void add(Annotation annotation) {
    if (global_.mesh.axes[static_cast<size_t>(annotation.axis)].size > 1)
      annotations_.push_back(annotation);
  }

  int priority_of(ValueId parameter, size_t axis) const {
    const Parameter& said = global_.parameters[parameter];
    for (size_t i = 0; i < said.priorities.size(); ++i) {
      if (said.placements[i].first == global_.mesh.axes[axis].name) return said.priorities[i];
    }
    return 0;
  }

  const Function& global_;
  std::vector<Annotation> annotations_;
};

}  // namespace

std::vector<Annotation> annotations_of(const Function& global,
                                       const std::vector<Sharding>& parameter_shardings,
                                       const std::vector<Sharding>& result_shardings) {
  Collector collector(global);
  collector.add_parameters(parameter_shardings);
  collector.add_constraints();
  collector.add_results(result_shardings);
  std::vector<Annotation> annotations = collector.take();
  require_agreement(global, annotations);
  return annotations;
}

}  // namespace gangway
