#include <capnp/serialize-packed.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/wire/graph.capnp.h"
#include "ir/wire/message.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

// A table of the message: each different entry once, in the order of first use.
template <class Entry, class Ids>
class Table {
 public:
  uint32_t index(const Entry& entry) {
    auto [at, is_new] = ids_.try_emplace(entry, static_cast<uint32_t>(entries_.size()));
    if (is_new) entries_.push_back(&at->first);
    return at->second;
  }
  uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }
  const Entry& operator[](uint32_t id) const { return *entries_[id]; }

 private:
  Ids ids_;  // Entries stay where they are.
  std::vector<const Entry*> entries_;
};

struct TypeLess {
  bool operator()(const Type& a, const Type& b) const {
    return a.dtype != b.dtype ? a.dtype < b.dtype : a.dims < b.dims;
  }
};

struct ShardingLess {
  bool operator()(const Sharding& a, const Sharding& b) const {
    auto less = [](const Placement& x, const Placement& y) {
      return std::tie(x.kind, x.dim, x.order, x.reduction) <
             std::tie(y.kind, y.dim, y.order, y.reduction);
    };
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), less);
  }
};

bool are_many_and_small(const std::vector<int64_t>& ints) {
  return ints.size() > 16 &&
         std::ranges::all_of(ints, [](int64_t i) { return std::in_range<int32_t>(i); });
}

class Writer {
 public:
  template <class Graph>
  std::vector<std::byte> run(const Graph& graph) {
    auto root = message_.initRoot<wire::Graph>();
    add_bodies(graph);
    write_bodies(root);
    write_graph(root, graph);
    root.setVersion(version_);
    auto strings = root.initStrings(strings_.size());
    for (uint32_t i = 0; i < strings_.size(); ++i) {
      strings.set(i, kj::StringPtr(strings_[i].c_str(), strings_[i].size()));
    }
    auto types = root.initTypes(types_.size());
    for (uint32_t i = 0; i < types_.size(); ++i) {
      types[i].setDtype(static_cast<uint8_t>(types_[i].dtype));
      fill_list(types[i].initDims(list_size(types_[i].dims.size())), types_[i].dims);
    }
    kj::VectorOutputStream out;
    capnp::writePackedMessage(out, message_);
    auto bytes = out.getArray();
    std::vector<std::byte> result(bytes.size());
    std::memcpy(result.data(), bytes.begin(), bytes.size());
    return result;
  }

 private:
  void add_bodies(const Function& f) { bodies_.add(f); }
  void add_bodies(const Program& p) {
    for (const auto& function : p.functions) bodies_.add(*function);
  }
  void write_bodies(wire::Graph::Builder root) {
    if (bodies_.size() == 0) return;
    need_version(2);
    auto bodies = root.initBodies(bodies_.size());
    for (uint32_t i = 0; i < bodies.size(); ++i) write(bodies[i], bodies_[i]);
  }
  void write_graph(wire::Graph::Builder root, const Function& f) { write(root.initFunction(), f); }
  void write_graph(wire::Graph::Builder root, const Program& p) { write(root.initProgram(), p); }

  void write(capnp::List<wire::MeshAxis>::Builder out, const Mesh& mesh) {
    for (uint32_t i = 0; i < out.size(); ++i) {
      out[i].setName(strings_.index(mesh.axes[i].name));
      out[i].setSize(mesh.axes[i].size);
    }
  }

  void write(wire::Placement::Builder out, const Placement& placement) {
    out.setKind(static_cast<uint8_t>(placement.kind));
    out.setDim(placement.dim);
    out.setOrder(static_cast<uint8_t>(placement.order));
    out.setReduction(static_cast<uint8_t>(placement.reduction));
    if (placement.order != 0 || placement.reduction != Reduction::kSum) need_version(2);
  }

  void write(capnp::List<wire::AxisPlacement>::Builder out, const AxisPlacements& placements) {
    for (uint32_t i = 0; i < out.size(); ++i) {
      out[i].setAxis(strings_.index(placements[i].first));
      write(out[i].initPlacement(), placements[i].second);
    }
  }

  void write(wire::Attr::Builder out, const AttrValue& value) {
    switch (kind_of(value)) {
      case AttrKind::kBool: return out.setFlag(std::get<bool>(value));
      case AttrKind::kInt: return out.setInteger(std::get<int64_t>(value));
      case AttrKind::kDouble: return out.setReal(std::get<double>(value));
      case AttrKind::kString: return out.setText(strings_.index(std::get<std::string>(value)));
      case AttrKind::kInts: {
        const auto& ints = std::get<std::vector<int64_t>>(value);
        if (!are_many_and_small(ints)) return fill_list(out.initInts(list_size(ints.size())), ints);
        need_version(3);
        auto small = out.initSmallInts(list_size(ints.size()));
        for (uint32_t i = 0; i < small.size(); ++i) small.set(i, static_cast<int32_t>(ints[i]));
        return;
      }
      case AttrKind::kDType: return out.setDtype(static_cast<uint8_t>(std::get<DType>(value)));
    }
  }

  void write(capnp::List<wire::Attr>::Builder out, const Attrs& attrs) {
    uint32_t i = 0;
    for (const auto& [name, value] : attrs) {
      out[i].setName(strings_.index(name));
      write(out[i++], value);
    }
  }

  void write(wire::Loc::Builder out, const LocEntry& loc) {
    out.setFile(strings_.index(loc.file));
    out.setLine(loc.line);
    out.setScope(strings_.index(loc.scope));
    out.setParent(loc.parent);
  }

  void write(wire::Function::Builder out, const Function& f) {
    out.setName(strings_.index(f.name));
    write(out.initMesh(list_size(f.mesh.axes.size())), f.mesh);
    out.setLocal(f.local);
    auto parameters = out.initParameters(list_size(f.parameters.size()));
    for (uint32_t i = 0; i < parameters.size(); ++i) {
      const Parameter& parameter = f.parameters[i];
      parameters[i].setName(strings_.index(parameter.name));
      auto placements = parameters[i].initPlacements(list_size(parameter.placements.size()));
      write(placements, parameter.placements);
      for (uint32_t p = 0; p < std::min<size_t>(placements.size(), parameter.priorities.size());
           ++p) {
        placements[p].setPriority(static_cast<uint8_t>(parameter.priorities[p]));
        need_version(2);
      }
    }
    auto types = out.initValueTypes(list_size(f.types.size()));
    for (uint32_t i = 0; i < types.size(); ++i) types.set(i, types_.index(f.types[i]));
    auto nodes = out.initNodes(list_size(f.nodes.size()));
    for (uint32_t i = 0; i < nodes.size(); ++i) write(nodes[i], f.nodes[i]);
    fill_list(out.initResults(list_size(f.results.size())), f.results);
    auto names = out.initResultNames(list_size(f.result_names.size()));
    for (uint32_t i = 0; i < names.size(); ++i) names.set(i, strings_.index(f.result_names[i]));
    write_shardings(out, f);
    write_side_tables(out, f);
  }

  void write(wire::Function::Node::Builder out, const Node& node) {
    out.setOp(static_cast<uint16_t>(node.op));
    out.setResults(node.results);
    out.setRegion(node.region);
    fill_list(out.initInputs(list_size(node.inputs.size())), node.inputs);
    if (node.attrs.size() > 0) write(out.initAttrs(list_size(node.attrs.size())), node.attrs);
    if (node.body == nullptr) return;
    if (shares_body(node.op)) {
      out.setSharedBody(bodies_.at(node.body.get()));
    } else {
      write(out.initBody(), *node.body);
    }
  }

  void write_shardings(wire::Function::Builder out, const Function& f) {
    Table<Sharding, std::map<Sharding, uint32_t, ShardingLess>> table;
    auto values = out.initValueShardings(list_size(f.shardings.size()));
    for (uint32_t i = 0; i < values.size(); ++i) values.set(i, table.index(f.shardings[i]));
    auto shardings = out.initShardings(table.size());
    for (uint32_t i = 0; i < shardings.size(); ++i) {
      auto placements = shardings[i].initPlacements(list_size(table[i].size()));
      for (uint32_t j = 0; j < placements.size(); ++j) write(placements[j], table[i][j]);
    }
  }

  void write_side_tables(wire::Function::Builder out, const Function& f) {
    auto infos = out.initInfos(list_size(f.infos.size()));
    for (uint32_t i = 0; i < infos.size(); ++i) {
      infos[i].setLoc(f.infos[i].loc);
      infos[i].setOrigin(f.infos[i].origin);
      infos[i].setReason(static_cast<uint8_t>(f.infos[i].reason));
    }
    auto locs = out.initLocs(list_size(f.locs.size()));
    for (uint32_t i = 0; i < locs.size(); ++i) write(locs[i], f.locs[i]);
  }

  void write(wire::Program::Builder out, const Program& p) {
    out.setName(strings_.index(p.name));
    out.setFiniteOutput(strings_.index(p.finite_output));
    if (p.numerics.deterministic) out.setDeterministic(*p.numerics.deterministic ? 1 : 2);
    out.setAllowTf32(p.numerics.allow_tf32);
    if (p.numerics != Numerics()) need_version(4);
    auto slices = out.initSlices(list_size(p.slices.size()));
    for (uint32_t i = 0; i < slices.size(); ++i) {
      slices[i].setName(strings_.index(p.slices[i].name));
      write(slices[i].initMesh(list_size(p.slices[i].mesh.axes.size())), p.slices[i].mesh);
    }
    auto functions = out.initFunctions(list_size(p.functions.size()));
    for (uint32_t i = 0; i < functions.size(); ++i) write(functions[i], *p.functions[i]);
    auto nodes = out.initNodes(list_size(p.nodes.size()));
    for (uint32_t i = 0; i < nodes.size(); ++i) write(nodes[i], p.nodes[i]);
  }

  void write(wire::Program::Node::Builder out, const ProgramNode& node) {
    out.setKind(static_cast<uint8_t>(node.kind));
    out.setName(strings_.index(node.name));
    out.setSlice(node.slice);
    out.setFunction(node.function);
    auto inputs = out.initInputs(list_size(node.inputs.size()));
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      inputs[i].setNode(node.inputs[i].node);
      inputs[i].setResult(node.inputs[i].result);
      inputs[i].setVersion(node.inputs[i].version);
    }
    auto updates = out.initUpdates(list_size(node.updates.size()));
    for (uint32_t i = 0; i < updates.size(); ++i) {
      updates[i].setResult(node.updates[i].result);
      updates[i].setState(node.updates[i].state);
    }
    auto results = out.initResults(list_size(node.types.size()));
    for (uint32_t i = 0; i < results.size(); ++i) {
      results[i].setType(types_.index(node.types[i]));
      if (i >= node.placements.size()) continue;
      write(results[i].initPlacements(list_size(node.placements[i].size())), node.placements[i]);
    }
    if (node.attrs.size() > 0) write(out.initAttrs(list_size(node.attrs.size())), node.attrs);
    if (node.firing != FiringRule{}) {
      auto firing = out.initFiring();
      firing.setKind(static_cast<uint8_t>(node.firing.kind));
      firing.setLow(node.firing.low);
      firing.setHigh(node.firing.high);
    }
    write(out.initLoc(), node.loc);
    if (!node.stacked) return;
    need_version(3);
    auto stacked = out.initStacked();
    stacked.setFirst(node.stacked->first);
    stacked.setCount(node.stacked->count);
    stacked.setNameTail(node.stacked->name_tail);
    if (!node.stacked->base.empty()) stacked.setBase(strings_.index(node.stacked->base));
  }

  void need_version(uint32_t version) { version_ = std::max(version_, version); }

  capnp::MallocMessageBuilder message_;
  BodyTable bodies_;
  Table<std::string, std::unordered_map<std::string, uint32_t>> strings_;
  Table<Type, std::map<Type, uint32_t, TypeLess>> types_;
  uint32_t version_ = kWireVersionMin;
};

}  // namespace

std::vector<std::byte> to_wire(const Function& function) { return Writer().run(function); }
std::vector<std::byte> to_wire(const Program& program) { return Writer().run(program); }

}  // namespace gangway
