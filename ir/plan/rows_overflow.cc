#include "ir/plan/rows_overflow.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <variant>

#include "ir/graph/bodies.h"

namespace gangway {
namespace {

// A product of dropless experts: its bound; null for all other nodes.
const double* bound_of(const Node& node) {
  if (node.op != Op::grouped_dot && node.op != Op::grouped_dot_grad_w) return nullptr;
  if (node.attrs.integer("capacity") > 0) return nullptr;
  const AttrValue* bound = node.attrs.find("bound");
  return bound == nullptr ? nullptr : std::get_if<double>(bound);
}

// On a mesh of n devices a device gets at most n times its own rows.
bool has_too_little_room(const Function& function) {
  return std::ranges::any_of(function.nodes, [&](const Node& node) {
    const double* bound = bound_of(node);
    return bound != nullptr && *bound < static_cast<double>(function.mesh.devices());
  });
}

using Rewritten = std::map<const Function*, std::shared_ptr<const Function>>;

std::shared_ptr<const Function> widened(const Function& function, const Rewritten& bodies) {
  auto wider = std::make_shared<Function>(function);
  for (Node& node : wider->nodes) {
    if (const double* bound = bound_of(node)) node.attrs.set("bound", with_more_room(*bound));
    if (shares_body(node.op)) node.body = bodies.at(node.body.get());
  }
  return wider;
}

BodyTable named_bodies(const Program& program) {
  BodyTable bodies;
  for (const auto& function : program.functions) bodies.add(*function);
  return bodies;
}

std::vector<const Function*> all_functions(const Program& program) {
  std::vector<const Function*> all;
  for (const auto& function : program.functions) all.push_back(function.get());
  const BodyTable bodies = named_bodies(program);
  for (uint32_t i = 0; i < bodies.size(); ++i) all.push_back(&bodies[i]);
  return all;
}

}  // namespace

Error rows_overflow(int64_t received, int64_t bound) {
  return {ErrorKind::kOverflow,
          cat("ragged rows: more than there is room for: expected at most ", bound,
              " for one device, got ", received),
          {},
          "give MoeConfig::bound a larger value"};
}

bool may_overflow(const Program& program) {
  return std::ranges::any_of(all_functions(program), [](const Function* function) {
    return has_too_little_room(*function);
  });
}

double with_more_room(double bound) { return std::max(1.0, 2 * bound); }

std::vector<RowsBound> rows_bounds(const Program& program) {
  std::set<RowsBound> bounds;
  for (const Function* function : all_functions(program)) {
    for (NodeId id = 0; id < function->nodes.size(); ++id) {
      const double* bound = bound_of(function->nodes[id]);
      if (bound != nullptr) bounds.insert({line_of(*function, id), *bound});
    }
  }
  return {bounds.begin(), bounds.end()};
}

Program with_more_room(const Program& program) {
  const BodyTable bodies = named_bodies(program);
  Rewritten wider;  // Each behind those in it.
  for (uint32_t i = 0; i < bodies.size(); ++i) wider[&bodies[i]] = widened(bodies[i], wider);
  Program result = program;
  for (auto& function : result.functions) function = widened(*function, wider);
  return result;
}

}  // namespace gangway
