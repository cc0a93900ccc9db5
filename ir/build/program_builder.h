// ProgramBuilder: traces a program as users write one: state, inputs and outputs around tensor
// expressions.
//
// Example:
//   StateTree specs;
//   specs.set("w", normal(f32({16, 16}), 0.02));
//   ProgramBuilder b("train_step", mesh);
//   Tree params = b.state("params", specs);  // A tree of StateSpec gives a tree of values.
//   Value x = b.input("x", f32({64, 16}), {{"data", shard(0)}});
//   Value lr = b.input("lr", f32());
//   Value loss = mean(square(dot(x, params["w"])));
//   Tree grads = gradients(loss, params);
//   b.update(params["w"], params["w"] - lr * grads["w"]);
//   b.output("loss", loss);
//   Program program = b.build();  // Reports every mistake at once.
//
// All of these operations belong to one call node on the slice "main". Programs of several calls,
// or on several slices, use call() with functions built by Builder, and transfer(). The result of
// an explicit call is sharded as the called function's shardings say; before propagation, the
// result of a call or a transfer is sharded as its first reader wants it.
//
// Threads: one thread.
// Errors: build() throws kInvalid with all mistakes, sorted by source position.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/build/builder.h"
#include "ir/build/tree.h"
#include "ir/graph/program.h"

namespace gangway {

// How a state begins: a type and an initialiser that runs on its devices.
struct StateSpec {
  Type type;
  // Traces the first value; key: i32[2] is unique to the state's name and the program's seed. For
  // stacked layers it traces the first value of one layer, whose key comes from the layer's own
  // name: the layers begin as they would as separate states.
  std::function<Value(Builder&, Value key, const Type&)> init;
  // Set for equal layers: `type` has a row for each.
  std::optional<StackedLayers> stacked = {};
  // Set for tensors that lie side by side in one state: `init` takes a key for each of them, key:
  // i32[parts, 2], which comes from the state's name with this as its last component.
  std::vector<std::string> parts = {};
};
StateSpec zeros(Type type, Loc loc = Loc::current());
StateSpec filled(Type type, double value, Loc loc = Loc::current());
StateSpec normal(Type type, double stddev, Loc loc = Loc::current());
// A spec with the type and stacking of another one; a moment has those of its parameter.
StateSpec zeros_like(const StateSpec& spec, Loc loc = Loc::current());
// Equal tensors side by side in one state: T[rows, ...] becomes T[rows, parts, ...]. They begin as
// separate states of these names would: of a state "attn.qkv" with the names q, k and v, [:, 0]
// begins as a state "attn.q".
StateSpec side_by_side(const StateSpec& part, const std::vector<std::string>& names,
                       Loc loc = Loc::current());
// The type of the state, or of one of the layers that it stacks.
Type layer_type(const StateSpec& spec);
using StateTree = TreeOf<StateSpec>;

// The specs of `count` equal layers as one: each leaf T[...] becomes T[count, ...], for scan() to
// go over. Row i is layer first + i. Files store each layer separately, as other tools expect:
// below a state "params.layers", "params.layers.attn.o" is stored as "params.layers.0.attn.o" and
// so on. `base` is for layers that are numbered together but lie in several stacks, whose states
// have different names: files have it as the component in front of the number.
StateTree stacked(const StateTree& layer, int64_t count, int64_t first = 0,
                  const std::string& base = "");

// Placements by glob on a value's full name: among the rules of each priority the first that
// matches applies, and rules of different priorities name different axes. A pattern that matches
// nothing is an error. Stacked layers match by the name of their stack, and dimensions are those of
// one layer: shard(0) cuts dimension 1.
//
// Example:
//   PlacementRule experts{"*.up|*.down", {{"expert", shard(0)}}};
struct PlacementRule {
  std::string pattern;
  AxisPlacements placements;
  int priority = 0;  // Rules of lower priority are applied first (Builder::shard).
};

// A data pipeline on the hosts; `kind` and `attrs` are known to data.
struct SourceSpec {
  std::string kind;
  Attrs attrs;
};

// A value of the program level: a result of a node.
struct ProgramValue {
  Edge edge;
  Type type;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name, Mesh mesh = {}, uint64_t seed = 0);
  ~ProgramBuilder();
  ProgramBuilder(const ProgramBuilder&) = delete;

  // Tracing: values of the implicit call on slice "main".
  Builder& builder();
  // A state, or a tree of them; placements are on dimensions of one layer where it is stacked.
  Value state(const std::string& name, const StateSpec& spec, AxisPlacements placements = {},
              Loc loc = Loc::current());
  Tree state(const std::string& name, const StateTree& specs,
             const std::vector<PlacementRule>& rules = {}, Loc loc = Loc::current());
  // The placements of a state, as rules that give any other state the same ("*").
  std::vector<PlacementRule> like(Value state) const;
  Value input(const std::string& name, Type type, AxisPlacements placements = {},
              Loc loc = Loc::current());
  Value source(const std::string& name, SourceSpec spec, Type type, AxisPlacements placements = {},
               Loc loc = Loc::current());
  // The spec of what state() gave, and its full name.
  const StateSpec& spec_of(Value state) const;
  std::string name_of(Value state) const;
  // shard() does what Builder::shard() does. shard_all() does it for each value of a tree, by the
  // rules that match the value's full name, which begins with `name`: gradients under the name of
  // their parameters take the same rules. If the state of that name is stacked, rules give
  // dimensions of one layer, and the values must have the dimensions of the state or of one layer.
  Value shard(Value value, const AxisPlacements& placements, int priority = 0,
              Loc loc = Loc::current());
  Tree shard_all(const std::string& name, const Tree& values,
                 const std::vector<PlacementRule>& rules, Loc loc = Loc::current());
  // The new values of states, in place when the run commits; `states` is what state() gave, or a
  // part of it. A single value is a tree of one leaf.
  void update(const Tree& states, const Tree& next, Loc loc = Loc::current());
  void output(const std::string& name, Value value, AxisPlacements placements = {},
              Loc loc = Loc::current());
  // A gate: the named output must be finite, and so must all that the run would put into states:
  // every new value, and where AdamW writes in place, its gradient, learning rate and other
  // scalars. Otherwise the run is not committed, and its error names the first op whose result was
  // not finite. A state that is to hold an infinity belongs in a program without a gate. In a
  // program that updates no state the output alone is looked at: the run fails where it is not
  // finite, and the runs behind it do not depend on it.
  void require_finite(const std::string& output);
  // Options that let the devices compute faster (ir/graph/numerics.h); defaults apply if this is
  // not called.
  void numerics(const Numerics& chosen);

  // Explicit graphs: several slices, several calls.
  uint32_t slice(const std::string& name, Mesh mesh);  // Slice 0 is "main".
  ProgramValue input_on(uint32_t slice, const std::string& name, Type type,
                        AxisPlacements placements = {}, Loc loc = Loc::current());
  ProgramValue state_on(uint32_t slice, const std::string& name, const StateSpec& spec,
                        AxisPlacements placements = {}, Loc loc = Loc::current());
  std::vector<ProgramValue> call(uint32_t slice, const std::string& name,
                                 std::shared_ptr<const Function> function,
                                 const std::vector<ProgramValue>& arguments,
                                 const std::vector<StateUpdate>& updates = {},
                                 Loc loc = Loc::current());
  ProgramValue transfer(ProgramValue value, uint32_t to_slice, Loc loc = Loc::current());
  void output_of(const std::string& name, ProgramValue value, Loc loc = Loc::current());

  Program build();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gangway
