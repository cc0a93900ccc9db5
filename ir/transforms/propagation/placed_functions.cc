#include "ir/transforms/propagation/placed_functions.h"

#include <memory>

namespace gangway {
namespace {

void add_bodies(const Function& function, const FunctionShardings& placed,
                const Propagation& propagation,
                std::map<const Function*, const FunctionShardings*>& found) {
  for (const auto& [node, index] : placed.body_of) {
    const Function& body = *function.nodes[node].body;
    const FunctionShardings& of_body = propagation.bodies[index];
    if (found.emplace(&body, &of_body).second) add_bodies(body, of_body, propagation, found);
  }
}

class PlacedCopy {
 public:
  PlacedCopy(const Function& function, const Propagation& propagation)
      : placed_(placed_functions(function, propagation)) {}

  Function run(const Function& function) {
    Function with = function;
    with.shardings = placed_.at(&function)->shardings;
    for (const auto& [node, index] : placed_.at(&function)->body_of) {
      std::shared_ptr<const Function>& made = made_[with.nodes[node].body.get()];
      if (made == nullptr) made = std::make_shared<const Function>(run(*with.nodes[node].body));
      with.nodes[node].body = made;
    }
    return with;
  }

 private:
  std::map<const Function*, const FunctionShardings*> placed_;
  std::map<const Function*, std::shared_ptr<const Function>> made_;  // Each body once.
};

}  // namespace

std::map<const Function*, const FunctionShardings*> placed_functions(
    const Function& function, const Propagation& propagation) {
  std::map<const Function*, const FunctionShardings*> found;
  found.emplace(&function, &propagation);
  add_bodies(function, propagation, propagation, found);
  return found;
}

Function with_shardings(const Function& function, const Propagation& propagation) {
  return PlacedCopy(function, propagation).run(function);
}

}  // namespace gangway
