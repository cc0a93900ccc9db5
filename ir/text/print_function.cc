#include <algorithm>

#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"

namespace gangway::internal {
namespace {

constexpr size_t kColumns = 100;

class FunctionPrinter {
 public:
  FunctionPrinter(const Function& function, const PrintOptions& options, const BodyTable& bodies,
                  std::string indent)
      : f_(function), options_(options), bodies_(bodies), indent_(std::move(indent)) {}

  std::string run() {
    print_header();
    uint32_t region = 0;
    std::string outer = indent_ + "  ";
    for (NodeId id = 0; id < f_.nodes.size(); ++id) {
      const Node& node = f_.nodes[id];
      if (options_.shows && !options_.shows(node)) continue;
      if (node.region != region) {
        if (region != 0) text_ += outer + "}\n";
        if (node.region != 0) text_ += cat(outer, "region ", node.region, " {\n");
        region = node.region;
      }
      print_node(id, node, region != 0 ? outer + "  " : outer);
    }
    if (region != 0) text_ += outer + "}\n";
    print_return(outer);
    return text_ + indent_ + "}\n";
  }

 private:
  void print_header() {
    std::vector<std::string> parameters;
    size_t width = 0;
    for (ValueId id = 0; id < f_.parameters.size(); ++id) {
      const Parameter& parameter = f_.parameters[id];
      std::string text = cat("%", id, " ", quote(parameter.name), ": ", type(id));
      if (!parameter.placements.empty()) text += " " + print_placements(parameter.placements);
      if (!parameter.priorities.empty())
        text += " priorities " +
                to_string(Dims(parameter.priorities.begin(), parameter.priorities.end()));
      parameters.push_back(text + sharding(id));
      width += parameters.back().size() + 2;
    }
    std::string head =
        cat(indent_, f_.local ? "local " : "", "func ", print_function_name(f_.name), "(");
    std::string mesh = f_.mesh.axes.empty() ? "" : cat("mesh ", print_mesh(f_.mesh), " ");
    bool one_line = head.size() + width + mesh.size() + 2 <= kColumns;
    text_ += head;
    for (size_t i = 0; i < parameters.size(); ++i) {
      text_ += cat(i == 0 ? "" : ",", one_line ? (i == 0 ? "" : " ") : "\n    " + indent_,
                   parameters[i]);
    }
    text_ += cat(one_line ? "" : "\n" + indent_, ") ", mesh, "{\n");
  }

  void print_node(NodeId id, const Node& node, const std::string& indent) {
    text_ += indent;
    for (uint32_t r = 0; r < node.results && r < f_.types.size(); ++r) {
      ValueId value = node.first_result + r;
      text_ += cat(r == 0 ? "%" : ", %", value, ": ", type(value), sharding(value));
    }
    bool known = static_cast<int>(node.op) < kOpCount;
    text_ += cat(" = ", known ? to_string(node.op) : "?");
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text_ += cat(i == 0 ? " %" : ", %", node.inputs[i]);
    }
    if (node.attrs.size() > 0) text_ += " " + print_attrs(node.attrs);
    const bool shared = node.body != nullptr && shares_body(node.op);
    if (shared) text_ += cat(" body ", bodies_.at(node.body.get()));
    if (options_.locations) text_ += comment_of(f_, id);
    text_ += "\n";
    if (node.body == nullptr || shared) return;
    std::string body =
        print_function(*node.body, {.locations = options_.locations}, bodies_, indent + "  ");
    text_ += cat(indent, "  body ", body.substr(indent.size() + 2));
  }

  void print_return(const std::string& indent) {
    text_ += indent + "return";
    for (size_t i = 0; i < f_.results.size(); ++i) {
      const std::string name = i < f_.result_names.size() ? f_.result_names[i] : "";
      text_ += cat(i == 0 ? " %" : ", %", f_.results[i], " ", quote(name));
    }
    text_ += "\n";
  }

  std::string type(ValueId id) const {
    return id < f_.types.size() ? print_type(f_.types[id]) : "?";
  }
  std::string sharding(ValueId id) const {
    if (id >= f_.shardings.size()) return "";
    return " over " + print_sharding(f_.mesh, f_.shardings[id]);
  }

  const Function& f_;
  const PrintOptions& options_;
  const BodyTable& bodies_;
  std::string indent_;
  std::string text_;
};

}  // namespace

std::string print_function(const Function& function, const PrintOptions& options,
                           const BodyTable& bodies, const std::string& indent) {
  if (options.shows && std::ranges::none_of(function.nodes, options.shows)) return "";
  return FunctionPrinter(function, options, bodies, indent).run();
}

std::string print_bodies(const BodyTable& bodies, const PrintOptions& options,
                         const std::string& indent) {
  std::string text;
  for (uint32_t i = 0; i < bodies.size(); ++i) {
    const std::string body = print_function(bodies[i], options, bodies, indent);
    if (body.empty()) continue;
    text += cat(indent, "body ", i, " ", body.substr(indent.size()));
  }
  return text;
}

}  // namespace gangway::internal
