#include <capnp/serialize-packed.h>

#include <algorithm>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "ir/wire/graph.capnp.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kInvalid, "wire form: " + what);
}

// A list's length, bounded before anything is allocated for it.
uint32_t bounded(const char* what, uint32_t size, size_t most) {
  if (size > most) fail(cat("too many ", what, ": expected at most ", most, ", got ", size));
  return size;
}

class Reader {
 public:
  explicit Reader(wire::Graph::Reader root) {
    auto strings = root.getStrings();
    strings_.reserve(bounded("strings", strings.size(), kValuesMax));
    for (auto text : strings) {
      bounded("bytes in a string", static_cast<uint32_t>(text.size()), kAttrTextBytesMax);
      strings_.emplace_back(text.begin(), text.size());
    }
    auto types = root.getTypes();
    types_.reserve(bounded("types", types.size(), kValuesMax));
    for (auto type : types) types_.push_back(read_type(type));
    read_bodies(root.getBodies());
  }

  Function read_function(wire::Function::Reader in, int depth) {
    if (depth > kBodyDepthMax) fail(cat("bodies nest too deep: expected at most ", kBodyDepthMax));
    Function f;
    f.name = string(in.getName());
    f.mesh = read_mesh(in.getMesh());
    f.local = in.getLocal();
    bounded("parameters", in.getParameters().size(), kParametersMax);
    for (auto parameter : in.getParameters()) {
      f.parameters.push_back({string(parameter.getName()),
                              read_placements(parameter.getPlacements()),
                              read_priorities(parameter.getPlacements())});
    }
    f.types.reserve(bounded("values", in.getValueTypes().size(), kValuesMax));
    for (uint32_t id : in.getValueTypes()) f.types.push_back(type(id));
    f.nodes.reserve(bounded("nodes", in.getNodes().size(), kNodesMax));
    uint32_t next = static_cast<uint32_t>(f.parameters.size());
    for (auto node : in.getNodes()) {
      f.nodes.push_back(read_node(node, depth));
      f.nodes.back().first_result = next;
      next += f.nodes.back().results;
    }
    bounded("results", in.getResults().size(), kResultsMax);
    for (uint32_t id : in.getResults()) f.results.push_back(id);
    bounded("names of results", in.getResultNames().size(), kResultsMax);
    for (uint32_t id : in.getResultNames()) f.result_names.push_back(string(id));
    read_shardings(in, f);
    read_side_tables(in, f);
    return f;
  }

  Program read_program(wire::Program::Reader in) {
    Program p;
    p.name = string(in.getName());
    p.finite_output = string(in.getFiniteOutput());
    const uint8_t deterministic = in.getDeterministic();
    if (deterministic > 2) fail(cat("deterministic is ", deterministic, ": expected 0 to 2"));
    if (deterministic > 0) p.numerics.deterministic = deterministic == 1;
    p.numerics.allow_tf32 = in.getAllowTf32();
    bounded("slices", in.getSlices().size(), kSlicesMax);
    for (auto slice : in.getSlices()) {
      p.slices.push_back({string(slice.getName()), read_mesh(slice.getMesh())});
    }
    bounded("functions", in.getFunctions().size(), kFunctionsMax);
    for (auto function : in.getFunctions()) {
      p.functions.push_back(std::make_shared<Function>(read_function(function, 0)));
    }
    bounded("nodes", in.getNodes().size(), kNodesMax);
    for (auto node : in.getNodes()) p.nodes.push_back(read_program_node(node));
    return p;
  }

 private:
  // Each body is bounded before one that names it is read, so that none nests too deep to be freed.
  void read_bodies(capnp::List<wire::Function>::Reader in) {
    bodies_.reserve(bounded("bodies", in.size(), kBodiesMax));
    BodySizes sizes;
    for (auto body : in) {
      bodies_.push_back(std::make_shared<const Function>(read_function(body, 1)));
      if (sizes.of(*bodies_.back()).depth >= kBodyDepthMax)
        fail(cat("bodies nest too deep: expected at most ", kBodyDepthMax));
    }
  }

  template <class Entry>
  static const Entry& entry(const char* what, const std::vector<Entry>& table, uint32_t id) {
    if (id >= table.size()) fail(cat(what, " ", id, " does not exist: there are ", table.size()));
    return table[id];
  }
  const std::string& string(uint32_t id) {
    const std::string& found = entry("string", strings_, id);
    charge(found.size());
    return found;
  }
  const Type& type(uint32_t id) {
    const Type& found = entry("type", types_, id);
    charge(sizeof(Type) + found.dims.size() * sizeof(int64_t));
    return found;
  }
  // An index is short and what it stands for may be long: bounds what a small message can make.
  void charge(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > kWireCopiesMax) {
      fail(cat("too large: expected names and types of at most ", kWireCopiesMax, " bytes in all"));
    }
  }

  static Type read_type(wire::Type::Reader in) {
    Type type{static_cast<DType>(in.getDtype()), {}};
    bounded("dimensions", in.getDims().size(), kRankMax);
    for (int64_t dim : in.getDims()) type.dims.push_back(dim);
    return type;
  }

  Mesh read_mesh(capnp::List<wire::MeshAxis>::Reader in) {
    Mesh mesh;
    bounded("axes of a mesh", in.size(), kMeshAxesMax);
    for (auto axis : in) mesh.axes.push_back({string(axis.getName()), axis.getSize()});
    return mesh;
  }

  static Placement read_placement(wire::Placement::Reader in) {
    return {.kind = static_cast<PlacementKind>(in.getKind()),
            .dim = in.getDim(),
            .order = in.getOrder(),
            .reduction = static_cast<Reduction>(in.getReduction())};
  }

  AxisPlacements read_placements(capnp::List<wire::AxisPlacement>::Reader in) {
    AxisPlacements placements;
    bounded("placements", in.size(), kMeshAxesMax);
    for (auto item : in) {
      placements.emplace_back(string(item.getAxis()), read_placement(item.getPlacement()));
    }
    return placements;
  }

  static std::vector<int> read_priorities(capnp::List<wire::AxisPlacement>::Reader in) {
    std::vector<int> priorities;
    for (auto item : in) priorities.push_back(item.getPriority());
    if (std::ranges::all_of(priorities, [](int priority) { return priority == 0; })) return {};
    return priorities;
  }

  AttrValue read_attr(wire::Attr::Reader in) {
    switch (in.which()) {
      case wire::Attr::FLAG: return in.getFlag();
      case wire::Attr::INTEGER: return in.getInteger();
      case wire::Attr::REAL: return in.getReal();
      case wire::Attr::TEXT: return string(in.getText());
      case wire::Attr::INTS: return read_ints(in.getInts());
      case wire::Attr::SMALL_INTS: return read_ints(in.getSmallInts());
      case wire::Attr::DTYPE: return static_cast<DType>(in.getDtype());
    }
    fail(cat("unknown kind of attribute ", static_cast<int>(in.which())));
  }

  template <class List>
  std::vector<int64_t> read_ints(List list) {
    bounded("numbers in an attribute", list.size(), kAttrIntsMax);
    std::vector<int64_t> ints(list.size());
    for (uint32_t i = 0; i < list.size(); ++i) ints[i] = list[i];
    return ints;
  }

  Attrs read_attrs(capnp::List<wire::Attr>::Reader in) {
    Attrs attrs;
    bounded("attributes", in.size(), kAttrsMax);
    for (auto item : in) {
      const std::string& name = string(item.getName());
      if (attrs.find(name) != nullptr) fail(cat("attribute \"", name, "\" is given twice"));
      attrs.set(name, read_attr(item));
    }
    return attrs;
  }

  Node read_node(wire::Function::Node::Reader in, int depth) {
    Node node{.op = static_cast<Op>(in.getOp()), .results = in.getResults()};
    node.region = in.getRegion();
    node.inputs.reserve(bounded("operands", in.getInputs().size(), kInputsMax));
    for (uint32_t id : in.getInputs()) node.inputs.push_back(id);
    node.attrs = read_attrs(in.getAttrs());
    // An op that does not exist is for the verifier to name.
    if (static_cast<int>(node.op) < kOpCount) fill_defaults(node.op, node.attrs);
    if (in.hasBody()) {
      node.body = std::make_shared<Function>(read_function(in.getBody(), depth + 1));
    } else if (in.getSharedBody() != kNone) {
      node.body = entry("body", bodies_, in.getSharedBody());
    }
    return node;
  }

  void read_shardings(wire::Function::Reader in, Function& f) {
    std::vector<Sharding> table;
    bounded("shardings", in.getShardings().size(), kValuesMax);
    for (auto sharding : in.getShardings()) {
      bounded("placements", sharding.getPlacements().size(), kMeshAxesMax);
      table.emplace_back();
      for (auto item : sharding.getPlacements()) table.back().push_back(read_placement(item));
    }
    f.shardings.reserve(bounded("shardings", in.getValueShardings().size(), kValuesMax));
    for (uint32_t id : in.getValueShardings()) {
      f.shardings.push_back(entry("sharding", table, id));
      charge(sizeof(Sharding) + f.shardings.back().size() * sizeof(Placement));
    }
  }

  void read_side_tables(wire::Function::Reader in, Function& f) {
    f.infos.reserve(bounded("infos", in.getInfos().size(), kNodesMax));
    for (auto info : in.getInfos()) {
      f.infos.push_back({info.getLoc(), info.getOrigin(), static_cast<Reason>(info.getReason())});
    }
    f.locs.reserve(bounded("locations", in.getLocs().size(), kLocsMax));
    for (auto loc : in.getLocs()) f.locs.push_back(read_loc(loc));
  }

  LocEntry read_loc(wire::Loc::Reader in) {
    return {string(in.getFile()), in.getLine(), string(in.getScope()), in.getParent()};
  }

  ProgramNode read_program_node(wire::Program::Node::Reader in) {
    ProgramNode node{.kind = static_cast<NodeKind>(in.getKind()),
                     .name = string(in.getName()),
                     .slice = in.getSlice(),
                     .function = in.getFunction()};
    bounded("operands", in.getInputs().size(), kInputsMax);
    for (auto edge : in.getInputs()) {
      node.inputs.push_back({edge.getNode(), edge.getResult(), edge.getVersion()});
    }
    bounded("updates", in.getUpdates().size(), kResultsMax);
    for (auto update : in.getUpdates()) {
      node.updates.push_back({update.getResult(), update.getState()});
    }
    bounded("results", in.getResults().size(), kResultsMax);
    for (auto result : in.getResults()) {
      node.types.push_back(type(result.getType()));
      node.placements.push_back(read_placements(result.getPlacements()));
    }
    node.attrs = read_attrs(in.getAttrs());
    auto firing = in.getFiring();
    node.firing = {static_cast<FiringKind>(firing.getKind()), firing.getLow(), firing.getHigh()};
    node.loc = read_loc(in.getLoc());
    if (in.hasStacked()) {
      auto stacked = in.getStacked();
      node.stacked = {stacked.getFirst(), stacked.getCount(), stacked.getNameTail()};
      if (stacked.getBase() != kNone) node.stacked->base = string(stacked.getBase());
    }
    return node;
  }

  std::vector<std::string> strings_;
  std::vector<Type> types_;
  std::vector<std::shared_ptr<const Function>> bodies_;
  size_t bytes_ = 0;  // Copied from the tables.
};

// read(root) on a message whose version is ours, with nothing behind it.
template <class Read>
auto with_message(std::span<const std::byte> bytes, Read read) {
  try {
    kj::ArrayInputStream in(
        kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
    capnp::PackedMessageReader message(
        in, {.traversalLimitInWords = kWireWordsMax, .nestingLimit = kWireNestingMax});
    auto root = message.getRoot<wire::Graph>();
    if (root.getVersion() < kWireVersionMin || root.getVersion() > kWireVersionMax) {
      fail(cat("this is version ", root.getVersion(), ": expected version ", kWireVersionMin,
               " to ", kWireVersionMax));
    }
    if (root.getVersion() == kWireVersionMin && root.hasBodies()) fail("version 1 has no bodies");
    auto graph = read(root);
    if (in.tryGetReadBuffer().size() > 0) fail("too long: expected nothing behind the graph");
    return graph;
  } catch (const kj::Exception& error) {
    fail(cat("malformed: ", error.getDescription().cStr()));
  }
}

}  // namespace

Function function_from_wire(std::span<const std::byte> bytes) {
  Function function = with_message(bytes, [](wire::Graph::Reader root) {
    if (!root.isFunction()) fail("this is a program: expected a function");
    return Reader(root).read_function(root.getFunction(), 0);
  });
  require_valid(function);
  return function;
}

Program program_from_wire(std::span<const std::byte> bytes) {
  Program program = with_message(bytes, [](wire::Graph::Reader root) {
    if (!root.isProgram()) fail("this is a function: expected a program");
    return Reader(root).read_program(root.getProgram());
  });
  require_valid(program);
  return program;
}

}  // namespace gangway
