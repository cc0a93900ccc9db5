#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "ir/graph/bodies.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

// Everything that same_graph compares, in the order of the structs; counts stand before lists, so
// that no two graphs give one sequence.
class GraphHasher {
 public:
  using BodyHashes = std::map<const Function*, Hash128>;
  enum class Of : uint8_t { kAll, kValues };  // Values: without names and meshes of functions.

  // Begins with the first version of the wire form, whose graphs keep their hashes.
  GraphHasher(BodyHashes* bodies, Of of) : bodies_(bodies), of_(of) { add(kWireVersionMin); }

  void add(const Function& f) {
    if (of_ == Of::kAll) {
      add(f.name);
      add(f.mesh);
    }
    add(f.local);
    add(f.parameters.size());
    for (const Parameter& parameter : f.parameters) {
      add(parameter.name);
      add_placements(parameter);
    }
    add(f.types.size());
    for (const Type& type : f.types) add(type);
    add(f.nodes.size());
    for (const Node& node : f.nodes) add(node);
    add(f.results.size());
    for (ValueId id : f.results) add(id);
    for (const std::string& name : f.result_names) add(name);
    add(f.shardings.size());
    for (const Sharding& sharding : f.shardings) {
      add(sharding.size());
      for (const Placement& placement : sharding) add(placement);
    }
  }

  Hash128 finish() const { return hasher_.finish(); }

 private:
  template <class Word>
    requires std::is_integral_v<Word> || std::is_enum_v<Word>
  void add(Word word) {
    hasher_.add(static_cast<uint64_t>(word));
  }
  void add(const std::string& text) { hasher_.add(std::string_view(text)); }

  void add(const Mesh& mesh) {
    add(mesh.axes.size());
    for (const MeshAxis& axis : mesh.axes) {
      add(axis.name);
      add(axis.size);
    }
  }

  void add(const Placement& placement) {
    // Placements that version 1 can't express have a mark of their own, so that hashes of version 1
    // graphs stay.
    constexpr uint64_t kWithOrder = 1 << 8;
    const bool plain = placement.order == 0 && placement.reduction == Reduction::kSum;
    add(static_cast<uint64_t>(placement.kind) | (plain ? 0 : kWithOrder));
    add(placement.dim);
    if (plain) return;
    add(placement.order);
    add(placement.reduction);
  }

  void add(const AxisPlacements& placements) {
    add(placements.size());
    for (const auto& [axis, placement] : placements) {
      add(axis);
      add(placement);
    }
  }

  // Hashes as version 1 does if there are no priorities; a mark in the count tells the two forms
  // apart.
  void add_placements(const Parameter& parameter) {
    if (parameter.priorities.empty()) return add(parameter.placements);
    constexpr uint64_t kWithPriorities = uint64_t{1} << 32;
    add(parameter.placements.size() | kWithPriorities);
    for (const auto& [axis, placement] : parameter.placements) {
      add(axis);
      add(placement);
    }
    for (int priority : parameter.priorities) add(priority);
  }

  void add(const Type& type) {
    add(type.dtype);
    add(type.dims.size());
    for (int64_t dim : type.dims) add(dim);
  }

  // All NaNs are one attribute value, so they have one hash.
  void add(double real) {
    if (std::isnan(real)) real = std::numeric_limits<double>::quiet_NaN();
    add(std::bit_cast<uint64_t>(real));
  }
  void add(const std::vector<int64_t>& ints) {
    add(ints.size());
    for (int64_t number : ints) add(number);
  }
  void add(const Attrs& attrs) {
    add(attrs.size());
    for (const auto& [name, value] : attrs) {
      add(name);
      add(value.index());
      std::visit([this](const auto& typed) { add(typed); }, value);
    }
  }

  // The numbers of results follow from their counts.
  void add(const Node& node) {
    add(node.op);
    add(node.inputs.size());
    for (ValueId id : node.inputs) add(id);
    add(node.attrs);
    add(node.results);
    add(node.region);
    add(node.body != nullptr);
    if (node.body == nullptr) return;
    if (shares_body(node.op)) {
      const Hash128& hash = hash_of_body(node.body.get());
      add(hash.high);
      add(hash.low);
    } else {
      add(*node.body);
    }
  }

  // Once for each body: what nodes share and what is only alike hash alike.
  const Hash128& hash_of_body(const Function* body) {
    auto found = bodies_->find(body);
    if (found == bodies_->end()) {
      GraphHasher hasher(bodies_, of_);
      hasher.add(*body);
      found = bodies_->emplace(body, hasher.finish()).first;
    }
    return found->second;
  }

  Hasher hasher_;
  BodyHashes* bodies_;
  const Of of_;
};

void add_locations(const Function& function, Hasher& hasher) {
  hasher.add(uint64_t{function.infos.size()});
  for (const NodeInfo& info : function.infos) {
    hasher.add(uint64_t{info.loc});
    hasher.add(uint64_t{info.origin});
    hasher.add(static_cast<uint64_t>(info.reason));
  }
  hasher.add(uint64_t{function.locs.size()});
  for (const LocEntry& loc : function.locs) {
    hasher.add(loc.file);
    hasher.add(static_cast<uint64_t>(loc.line));
    hasher.add(loc.scope);
    hasher.add(uint64_t{loc.parent});
  }
}

Hash128 hash_of(const Function& function, GraphHasher::Of of) {
  GraphHasher::BodyHashes bodies;
  GraphHasher hasher(&bodies, of);
  hasher.add(function);
  return hasher.finish();
}

}  // namespace

Hash128 content_hash(const Function& function) { return hash_of(function, GraphHasher::Of::kAll); }
Hash128 values_hash(const Function& function) {
  return hash_of(function, GraphHasher::Of::kValues);
}

Hash128 location_hash(const Function& function) {
  Hasher hasher;
  BodyTable bodies;
  bodies.add(function);
  for (uint32_t i = 0; i < bodies.size(); ++i) add_locations(bodies[i], hasher);
  add_locations(function, hasher);
  return hasher.finish();
}

}  // namespace gangway
