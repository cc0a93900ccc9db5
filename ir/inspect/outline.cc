#include "ir/inspect/outline.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/graph/bodies.h"
#include "ir/graph/node_facts.h"
#include "ir/text/print_internal.h"
#include "runtime/base/error.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

using namespace internal;

// States that share their first component are grouped by the next one, unless that gives more
// groups than this, or a group of a single state.
constexpr size_t kGroupsMax = 4;

std::string cost_text(const Cost& cost) {
  return cat(format_count(cost.flops), cost.flops < 1000 ? " FLOP, " : "FLOP, ",
             format_bytes(static_cast<uint64_t>(cost.bytes)), " read and written");
}

std::string counted(size_t count, const char* what) {
  return cat(count, " ", what, count == 1 ? "" : "s");
}

std::string place_of(const ProgramNode& node) {
  if (node.loc.file.empty()) return "";
  return "  // " + to_string(Loc{node.loc.file.c_str(), node.loc.line});
}

void require_known(const Program& program, const OutlineFilter& filter) {
  for (const std::string& slice : filter.slices) {
    std::string names;
    bool known = false;
    for (const ProgramSlice& one : program.slices) {
      names += cat(names.empty() ? "" : ", ", one.name);
      known = known || one.name == slice;
    }
    GW_REQUIRE(known, "graph: program \"", program.name, "\" has no slice \"", slice, "\": it has ",
               names);
  }
  for (const std::string& op : filter.ops) {
    bool known = false;
    for (int i = 0; i < kOpCount; ++i) known = known || to_string(static_cast<Op>(i)) == op;
    GW_REQUIRE(known, "graph: there is no op \"", op, "\": docs/ir.md lists them");
  }
}

bool is_shown(const Program& program, const ProgramNode& node, const OutlineFilter& filter) {
  const auto is_named = [&](const std::string& part) {
    return node.name.find(part) != std::string::npos;
  };
  if (!filter.nodes.empty() && std::ranges::none_of(filter.nodes, is_named)) return false;
  return filter.slices.empty() ||
         std::ranges::find(filter.slices, program.slices[node.slice].name) != filter.slices.end();
}

using States = std::vector<const ProgramNode*>;

int64_t bytes_of(const States& states) {
  int64_t bytes = 0;
  for (const ProgramNode* state : states) bytes += state->types[0].bytes();
  return bytes;
}

// Behind `prefix`, by the next component of their names.
std::map<std::string, States> groups_of(const States& states, const std::string& prefix) {
  std::map<std::string, States> groups;
  for (const ProgramNode* state : states) {
    const size_t dot = state->name.find('.', prefix.size());
    groups[dot == std::string::npos ? state->name : state->name.substr(0, dot + 1)].push_back(
        state);
  }
  return groups;
}

std::string states_text(const States& states, const std::string& prefix) {
  std::string text;
  for (const auto& [name, group] : groups_of(states, prefix)) {
    if (group.size() == 1) {
      text += cat("    ", group[0]->name, ": ", print_type(group[0]->types[0]), "\n");
      continue;
    }
    const std::map<std::string, States> inner = groups_of(group, name);
    const bool are_few = inner.size() > 1 && inner.size() <= kGroupsMax;
    const bool is_split = are_few && std::ranges::none_of(inner, [](const auto& one) {
                            return one.second.size() == 1;
                          });
    text += is_split ? states_text(group, name)
                     : cat("    ", name, "*: ", counted(group.size(), "state"), ", ",
                           format_bytes(static_cast<uint64_t>(bytes_of(group))), "\n");
  }
  return text;
}

class Outline {
 public:
  Outline(const Program& program, const OutlineFilter& filter) : p_(program), filter_(filter) {}

  std::string run() {
    text_ = cat("program ", print_function_name(p_.name));
    if (!p_.finite_output.empty()) text_ += " finite " + quote(p_.finite_output);
    text_ += to_string(p_.numerics);
    text_ += "\n";
    for (const ProgramSlice& slice : p_.slices)
      text_ += cat("  slice ", quote(slice.name), " mesh ", print_mesh(slice.mesh), "\n");
    print_states();
    for (uint32_t id = 0; id < p_.nodes.size(); ++id) {
      const ProgramNode& node = p_.nodes[id];
      if (node.kind != NodeKind::kState && is_shown(p_, node, filter_)) print_node(id, node);
    }
    return text_;
  }

 private:
  void print_states() {
    States states;
    for (const ProgramNode& node : p_.nodes) {
      if (node.kind == NodeKind::kState && is_shown(p_, node, filter_)) states.push_back(&node);
    }
    if (states.empty()) return;
    text_ += cat("  ", counted(states.size(), "state"), ", ",
                 format_bytes(static_cast<uint64_t>(bytes_of(states))), "\n");
    if (filter_.nodes.empty()) {
      text_ += states_text(states, "");
      return;
    }
    for (const ProgramNode* state : states)
      text_ += cat("    ", state->name, ": ", print_type(state->types[0]), place_of(*state), "\n");
  }

  // Calls may have hundreds of operands.
  void print_node(uint32_t id, const ProgramNode& node) {
    if (node.kind != NodeKind::kCall) {
      text_ += print_program_node(p_, id, {});
      return;
    }
    const Function& function = *p_.functions[node.function];
    text_ += cat("  %", id, " = call ", quote(node.name));
    if (p_.slices.size() > 1) text_ += cat(" on ", quote(p_.slices[node.slice].name));
    text_ +=
        cat(" ", print_function_name(function.name), ", ", counted(node.inputs.size(), "operand"),
            " -> ", counted(node.types.size(), "result"));
    if (!node.updates.empty()) text_ += cat(", updates ", counted(node.updates.size(), "state"));
    text_ += place_of(node) + "\n";
    text_ += cat("    ", print_function_name(function.name), ": ",
                 counted(function.nodes.size(), "node"), ", ", cost_text(cost_of(function)), "\n");
    print_loops(function, "      ");
  }

  void print_loops(const Function& function, const std::string& indent) {
    for (NodeId id = 0; id < function.nodes.size(); ++id) {
      const Node& node = function.nodes[id];
      if (!row(node.op).repeats_body) continue;
      text_ += cat(indent, "scan of ", ScanLayout(node).length, ": ",
                   counted(node.body->nodes.size(), "node"), ", ", cost_text(cost_of(*node.body)),
                   " each time", comment_of(function, id), "\n");
      print_loops(*node.body, indent + "  ");
    }
  }

  const Program& p_;
  const OutlineFilter& filter_;
  std::string text_;
};

// The functions of calls that are shown, in their order.
std::vector<const Function*> called(const Program& program, const OutlineFilter& filter) {
  std::vector<const Function*> functions;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kCall || !is_shown(program, node, filter)) continue;
    const Function* const function = program.functions[node.function].get();
    if (std::ranges::find(functions, function) == functions.end()) functions.push_back(function);
  }
  return functions;
}

}  // namespace

std::string outline(const Program& program, const OutlineFilter& filter) {
  require_known(program, filter);
  return Outline(program, filter).run();
}

std::string functions_text(const Program& program, const OutlineFilter& filter) {
  require_known(program, filter);
  PrintOptions options;
  if (!filter.ops.empty()) {
    options.shows = [ops = std::set<std::string>(filter.ops.begin(), filter.ops.end())](
                        const Node& node) { return ops.contains(std::string(to_string(node.op))); };
  }
  const std::vector<const Function*> functions = called(program, filter);
  BodyTable bodies;
  for (const Function* function : functions) bodies.add(*function);
  std::string text = print_bodies(bodies, options, "");
  for (const Function* function : functions)
    text += (text.empty() ? "" : "\n") + print_function(*function, options, bodies, "");
  return text;
}

ProgramTotals totals_of(const Program& program) {
  ProgramTotals totals;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kState) {
      ++totals.states;
      totals.state_bytes += node.types[0].bytes();
    } else if (node.kind == NodeKind::kCall) {
      const Cost cost = cost_of(*program.functions[node.function]);
      totals.flops += cost.flops;
      totals.bytes += cost.bytes;
    }
  }
  return totals;
}

std::string to_text(const ProgramTotals& totals) {
  return cat(cost_text({.flops = totals.flops, .bytes = totals.bytes}), "; ",
             counted(static_cast<size_t>(totals.states), "state"), " of ",
             format_bytes(static_cast<uint64_t>(totals.state_bytes)));
}

}  // namespace gangway
