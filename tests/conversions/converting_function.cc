#include "tests/conversions/converting_function.h"

namespace gangway::tests {

Function converting_function(const std::string& name, const Type& global, const Mesh& mesh,
                             const Sharding& from, const std::vector<ConversionStep>& steps) {
  Function local;
  local.name = name;
  local.mesh = mesh;
  local.local = true;
  local.parameters = {{.name = "x", .placements = {}}};
  local.types = {local_type(global, mesh, from).value()};
  for (const ConversionStep& step : steps) {
    Node node{.op = step.op, .inputs = {local.value_count() - 1}, .attrs = step.attrs};
    node.first_result = local.value_count();
    local.nodes.push_back(std::move(node));
    local.types.push_back(local_type(global, mesh, step.after).value());
  }
  local.infos.resize(local.nodes.size());
  local.results = {local.value_count() - 1};
  local.result_names = {"y"};
  return local;
}

}  // namespace gangway::tests
