#include "ir/explain/why.h"
#include "ir/transforms/propagation/placed_functions.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "ir/explain/conversion_text.h"
#include "ir/graph/bodies.h"
#include "ir/text/print_internal.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using internal::quote;

constexpr size_t kNodesMax = 8, kValuesMax = 12, kConversionsMax = 10;

struct ValueName {
  std::string function;  // Empty: of the only call.
  ValueId value = kNone;
};

// "%14", "@layer.%3", "layer.%3".
std::optional<ValueName> value_name(const std::string& what) {
  const size_t percent = what.rfind('%');
  if (percent == std::string::npos || percent + 1 == what.size()) return std::nullopt;
  ValueName name;
  const char* const end = what.data() + what.size();
  const auto read = std::from_chars(what.data() + percent + 1, end, name.value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  if (percent == 0) return name;
  if (what[percent - 1] != '.') return std::nullopt;
  const size_t begin = what[0] == '@' ? 1 : 0;
  name.function = what.substr(begin, percent - 1 - begin);
  return name;
}

bool is_line(const std::string& what) {
  const size_t colon = what.rfind(':');
  return colon != std::string::npos && colon > 0 && colon + 1 < what.size() &&
         what.find_first_not_of("0123456789", colon + 1) == std::string::npos;
}

// Whether `line`, "src/model.cc:80", is what the user calls "model.cc:80".
bool is_same_line(const std::string& line, const std::string& said) {
  if (!line.ends_with(said)) return false;
  return line.size() == said.size() || line[line.size() - said.size() - 1] == '/';
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines += cat(indent, text.substr(at, end - at), "\n");
    at = end + 1;
  }
  return lines;
}

class Why {
 public:
  explicit Why(const ExplainedProgram& explained)
      : explained_(explained), program_(explained.program) {}

  std::string run(const std::string& what) const {
    if (const auto name = value_name(what)) return of_named_value(*name);
    const std::vector<uint32_t> named = what.empty() ? std::vector<uint32_t>{} : nodes_named(what);
    if (!named.empty()) return of_nodes(named);
    if (is_line(what)) return of_line(what);
    fail(what);
  }

 private:
  const ProgramNode& node(uint32_t id) const { return program_.nodes[id]; }
  const Mesh& mesh(const ProgramNode& node) const { return program_.slices[node.slice].mesh; }

  std::vector<uint32_t> nodes_named(const std::string& what) const {
    std::vector<uint32_t> exact, partly;
    for (uint32_t id = 0; id < program_.nodes.size(); ++id) {
      if (node(id).name == what) exact.push_back(id);
      if (node(id).name.find(what) != std::string::npos) partly.push_back(id);
    }
    if (!exact.empty()) return exact;
    return partly.size() <= kNodesMax ? partly : std::vector<uint32_t>{};
  }

  [[noreturn]] void fail(const std::string& what) const {
    std::string names;
    size_t more = 0;
    for (const ProgramNode& one : program_.nodes) {
      const bool is_near = one.name.find(what) != std::string::npos ||
                           one.kind == NodeKind::kCall || one.kind == NodeKind::kOutput ||
                           one.kind == NodeKind::kSource;
      if (!is_near) continue;
      if (names.size() < 200) {
        names += cat(names.empty() ? "" : ", ", one.name);
      } else {
        ++more;
      }
    }
    if (more > 0) names += cat(" and ", more, " more");
    throw Error(ErrorKind::kInvalid,
                cat("why: program ", quote(program_.name), " has no one node ", quote(what)), {},
                cat("give the name of a node (", names,
                    "), a value as --level sharding numbers it (%14, @layer.%3) or a line of the "
                    "program's source (model.cc:80)"));
  }

  std::string of_nodes(const std::vector<uint32_t>& nodes) const {
    std::string text;
    for (const uint32_t id : nodes) text += cat(text.empty() ? "" : "\n", of_node(id));
    return text;
  }

  // A node of the program.
  std::string of_node(uint32_t id) const {
    const ProgramNode& of = node(id);
    std::string text = cat(to_string(of.kind), " ", quote(of.name));
    if (!of.loc.file.empty())
      text += cat(" (", to_string(Loc{of.loc.file.c_str(), of.loc.line}), ")");
    if (of.kind == NodeKind::kCall) return cat(text, "\n", slice_text(of), of_call(id));
    if (of.kind == NodeKind::kOutput) return cat(text, "\n", of_output(of));
    text += cat(": ", type_text(of.types[0], mesh(of), resolve(mesh(of), of.placements[0])), "\n");
    for (const MeshAxis& axis : mesh(of).axes)
      text += "  " + annotated(of.placements[0], axis.name);
    return cat(text, slice_text(of), readers(id));
  }

  static std::string annotated(const AxisPlacements& said, const std::string& axis) {
    const auto found =
        std::ranges::find_if(said, [&](const auto& item) { return item.first == axis; });
    if (found == said.end()) return cat("replicate on ", axis, ", as nothing else was said\n");
    return cat(to_string(found->second), " on ", axis, ", as annotated\n");
  }

  std::string type_text(const Type& type, const Mesh& mesh, const Sharding& sharding) const {
    const auto local = local_type(type, mesh, sharding);
    std::string text =
        cat(internal::print_type(type), " ", internal::print_sharding(mesh, sharding));
    if (local && *local != type)
      text += cat(", ", internal::print_type(*local), " on each of ", mesh.devices(), " devices");
    return text;
  }

  // The devices on which it runs, and why.
  std::string slice_text(const ProgramNode& of) const {
    const PlanSlice& slice = explained_.plan.slices[of.slice];
    std::string text = cat("  on slice ", quote(program_.slices[of.slice].name), " ",
                           internal::print_mesh(slice.mesh), ":");
    for (const PlanRange& range : slice.ranges) {
      text += cat(" ", explained_.plan.hosts[range.host], ":", range.first);
      if (range.count > 1) text += cat("-", range.first + range.count - 1);
    }
    const bool is_chosen =
        of.slice < explained_.placed.size() && !explained_.placed[of.slice].empty();
    return cat(text, is_chosen ? ": " + explained_.placed[of.slice] : "", "\n");
  }

  // The calls that read it, and the conversions that they need.
  std::string readers(uint32_t id) const {
    std::string text;
    for (const auto& [call, record] : explained_.calls) {
      const std::vector<Edge>& inputs = node(call).inputs;
      for (ValueId p = 0; p < inputs.size(); ++p) {
        if (inputs[p].node != id) continue;
        text += cat("  read by call ", quote(node(call).name), " as parameter ",
                    quote(record.function.parameters[p].name), "\n",
                    conversions_of(record, nullptr, p, "    "));
      }
    }
    return text;
  }

  std::string of_output(const ProgramNode& of) const {
    const Edge& edge = of.inputs[0];
    const auto call = explained_.calls.find(edge.node);
    if (call == explained_.calls.end()) return of_node(edge.node);
    const CompileRecord& record = call->second;
    return of_value(record, nullptr, record.function.results[edge.result]);
  }

  std::string of_call(uint32_t id) const {
    const CompileRecord& record = explained_.calls.at(id);
    std::vector<const ConversionRecord*> sending;
    for (const ConversionRecord& one : record.conversions) {
      if (sent(one) > 0) sending.push_back(&one);
    }
    if (sending.empty()) return "  its devices exchange nothing\n";
    std::ranges::stable_sort(sending,
                             [](const auto* a, const auto* b) { return sent(*a) > sent(*b); });
    std::string text =
        cat("  ", sending.size(), sending.size() == 1 ? " conversion" : " conversions",
            " of values between devices; those that send most, where they stand:\n");
    sending.resize(std::min(sending.size(), kConversionsMax));
    for (const ConversionRecord* one : sending) {
      const Function& in = one->in == nullptr ? record.function : *one->in;
      text += cat("    ", value_text(in, one->value), " of @", in.name, "\n",
                  conversion_text(record, *one, "      "));
    }
    return text;
  }

  static int64_t sent(const ConversionRecord& one) {
    int64_t bytes = 0;
    for (const ConversionStep& step : one.steps) bytes += step.bytes;
    return bytes;
  }

  static std::string conversions_of(const CompileRecord& record, const Function* in, ValueId value,
                                    const std::string& indent) {
    std::string text;
    for (const ConversionRecord& one : record.conversions) {
      if (one.in == in && one.value == value) text += conversion_text(record, one, indent);
    }
    return text.empty() ? cat(indent, "all who read it take it as it lies\n") : text;
  }

  // `in`: the body that has the value; null: the function itself.
  std::string of_value(const CompileRecord& record, const Function* in, ValueId value) const {
    const Function& function = in == nullptr ? record.function : *in;
    const FunctionShardings& placed =
        *placed_functions(record.function, record.propagation).at(&function);
    const std::string name = cat("%", value, " of @", function.name);
    std::string text =
        cat(name, ": ",
            type_text(function.types[value], record.function.mesh, placed.shardings[value]), "\n");
    text += indented(explain(record.function, record.propagation, value, in), "  ");
    return cat(text, "  conversions\n", conversions_of(record, in, value, "    "));
  }

  // Functions of calls, with the bodies in them, each once.
  template <class Visit>
  void for_each_function(const Visit& visit) const {
    std::set<const Function*> seen;
    for (const auto& [call, record] : explained_.calls) {
      if (!seen.insert(program_.functions[node(call).function].get()).second) continue;
      visit(record, nullptr);
      BodyTable bodies;
      bodies.add(record.function);
      for (uint32_t body = 0; body < bodies.size(); ++body) visit(record, &bodies[body]);
    }
  }

  std::string of_named_value(const ValueName& name) const {
    std::string text, names;
    size_t calls = 0;
    for_each_function([&](const CompileRecord& record, const Function* in) {
      const Function& function = in == nullptr ? record.function : *in;
      names += cat(names.empty() ? "@" : ", @", function.name, " has ", function.types.size());
      calls += in == nullptr ? 1 : 0;
      const bool is_meant = name.function.empty() ? in == nullptr : function.name == name.function;
      if (!is_meant || name.value >= function.types.size()) return;
      text += cat(text.empty() ? "" : "\n", of_value(record, in, name.value));
    });
    GW_REQUIRE(!text.empty() && (calls == 1 || !name.function.empty()), "why: value ",
               name.function.empty() ? "" : cat("@", name.function, "."), "%", name.value,
               text.empty() ? ": there is none: " : ": of which function: ",
               "expected a value as --level sharding numbers it: ", names);
    return text;
  }

  std::string of_line(const std::string& line) const {
    std::string text;
    size_t values = 0, more = 0;
    for_each_function([&](const CompileRecord& record, const Function* in) {
      const Function& function = in == nullptr ? record.function : *in;
      for (NodeId id = 0; id < function.nodes.size(); ++id) {
        const Node& one = function.nodes[id];
        const uint32_t loc = id < function.infos.size() ? function.infos[id].loc : kNone;
        if (loc == kNone || one.results == 0 || !is_same_line(line_of(function, id), line))
          continue;
        if (++values > kValuesMax) {
          ++more;
          continue;
        }
        text += cat(text.empty() ? "" : "\n", of_value(record, in, one.first_result));
      }
    });
    if (values == 0) fail(line);
    if (more > 0) text += cat("\nand ", more, " more of this line\n");
    return text;
  }

  const ExplainedProgram& explained_;
  const Program& program_;
};

}  // namespace

std::string why(const ExplainedProgram& explained, const std::string& what) {
  return Why(explained).run(what);
}

}  // namespace gangway
