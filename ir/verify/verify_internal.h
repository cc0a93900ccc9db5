// Shared by the parts of the verifier: the growing list of mistakes and the rules of small values.
//
// Every helper accepts garbage (enum values out of range, huge sizes) and says what is wrong in
// words.
// Threads: pure functions; a Report belongs to one call of verify.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/verify/verify.h"
#include "runtime/base/quote.h"

namespace gangway::internal {

// Collects mistakes up to a bound: a garbage graph may have millions.
class Report {
 public:
  static constexpr size_t kMistakesMax = 100;

  void add(Mistake mistake) {
    ++count_;
    if (mistakes_.size() < kMistakesMax) mistakes_.push_back(std::move(mistake));
  }
  bool full() const { return mistakes_.size() >= kMistakesMax; }
  size_t count() const { return count_; }  // Also those beyond the bound.
  std::vector<Mistake> take();             // Sorted.

 private:
  std::vector<Mistake> mistakes_;
  size_t count_ = 0;
};

// The mistake in the value, or nullopt.
std::optional<std::string> name_mistake(std::string_view name, std::string_view what);
std::optional<std::string> mesh_mistake(const Mesh& mesh);
std::optional<std::string> type_mistake(const Type& type);
std::optional<std::string> attrs_mistake(const Attrs& attrs);
// `type` is valid and the mesh is too. A local function's types are parts already: cuts need not be
// exact.
enum class Cuts { kExact, kAny };
std::optional<std::string> sharding_mistake(const Type& type, const Mesh& mesh,
                                            const Sharding& sharding, Cuts cuts = Cuts::kExact);
// Checks placements in the form that users write; never partial.
std::optional<std::string> placements_mistake(const Type& type, const Mesh& mesh,
                                              const AxisPlacements& placements,
                                              Cuts cuts = Cuts::kExact);

// A node of the collective family whose own rule holds: its axes, and what follows from their
// sizes, must be those of the mesh.
std::optional<std::string> collective_mistake(const Mesh& mesh, const Node& node);

// A name that was not verified, for messages: quoted, unless it is garbage.
std::string shown(std::string_view name);
// "f32[8, 16]", or a description of a type that has no spelling.
std::string spell(const Type& type);
std::string spell(const std::vector<Type>& types);  // "f32[8], i32[]"

// Verifies a function and the bodies inside it. `seen` holds the bodies that were found good, so
// that a body that is shared costs once.
void verify_function(const Function& function, int depth, const Mistake& outer,
                     std::set<const Function*>& seen, Report& report);

}  // namespace gangway::internal
