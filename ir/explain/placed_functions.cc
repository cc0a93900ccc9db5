#include "ir/explain/placed_functions.h"

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

class Placer {
 public:
  explicit Placer(const CompileRecord& record) : placed_(placed_functions(record)) {}

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

std::map<const Function*, const FunctionShardings*> placed_functions(const CompileRecord& record) {
  std::map<const Function*, const FunctionShardings*> found;
  found.emplace(&record.function, &record.propagation);
  add_bodies(record.function, record.propagation, record.propagation, found);
  return found;
}

Function with_shardings(const CompileRecord& record) { return Placer(record).run(record.function); }

}  // namespace gangway
