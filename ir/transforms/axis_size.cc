#include "ir/transforms/axis_size.h"

#include <map>

#include "ir/verify/verify.h"

namespace gangway {
namespace {

using FunctionPtr = std::shared_ptr<const Function>;

class Meshes {
 public:
  explicit Meshes(const Mesh& mesh) : mesh_(mesh) {}

  // Bodies that nodes share stay shared.
  FunctionPtr of(const FunctionPtr& function) {
    if (const auto found = made_.find(function.get()); found != made_.end()) return found->second;
    auto copy = std::make_shared<Function>(*function);
    copy->mesh = mesh_;
    for (Node& node : copy->nodes) {
      if (node.body != nullptr) node.body = of(node.body);
    }
    return made_[function.get()] = std::move(copy);
  }

 private:
  const Mesh& mesh_;
  std::map<const Function*, FunctionPtr> made_;
};

}  // namespace

Program with_axis_size(const Program& program, uint32_t slice, std::string_view axis,
                       int64_t size) {
  GW_REQUIRE(slice < program.slices.size(), "program \"", program.name, "\": there is no slice ",
             slice);
  Program resized = program;
  Mesh& mesh = resized.slices[slice].mesh;
  const int at = mesh.axis(axis);
  GW_REQUIRE(at >= 0 && size >= 1, "program \"", program.name, "\": slice \"",
             program.slices[slice].name, "\" has no axis \"", axis, "\" that could have size ",
             size);
  mesh.axes[static_cast<size_t>(at)].size = size;
  // A function that is called on other slices too is another one there.
  std::vector<bool> is_elsewhere(program.functions.size(), false);
  for (const ProgramNode& node : program.nodes) {
    if (node.function != kNone && node.slice != slice) is_elsewhere[node.function] = true;
  }
  Meshes meshes(mesh);
  std::map<uint32_t, uint32_t> index;
  for (ProgramNode& node : resized.nodes) {
    if (node.function == kNone || node.slice != slice) continue;
    const uint32_t old = node.function;
    if (!index.contains(old)) {
      FunctionPtr changed = meshes.of(program.functions[old]);
      if (!is_elsewhere[old]) {
        resized.functions[old] = std::move(changed);
        index[old] = old;
      } else {
        auto named = std::make_shared<Function>(*changed);
        named->name = cat(named->name, "@", program.slices[slice].name);
        index[old] = static_cast<uint32_t>(resized.functions.size());
        resized.functions.push_back(std::move(named));
      }
    }
    node.function = index[old];
  }
  require_valid(resized);
  return resized;
}

}  // namespace gangway
