// Builder: traces one Function. User code rarely names it: free op functions (ir/build/ops.h) find
// it through their operands.
//
// Example:
//   Builder b("loss", mesh);
//   Value x = b.parameter("x", f32({8, 16}), {{"data", shard(0)}});
//   b.result("loss", mean(x * x));
//   Function f = b.build();
//
// Errors: an op whose operands do not fit throws kInvalid at once with the op, both shapes and the
// user's line.
// Threads: one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/build/value.h"
#include "ir/graph/function.h"
#include "runtime/base/error.h"

namespace gangway {

namespace internal {
class BodyCache;  // ir/build/body_cache.h
}

class Builder {
 public:
  explicit Builder(std::string name, Mesh mesh = {});
  // Traces a body of a node of `outer`: over the same mesh, and in the scopes where `outer` is.
  Builder(const Builder& outer, std::string name);
  // Goes on with a function, as a body of `outer`: with its parameters, nodes and locations, and
  // without its results.
  Builder(const Builder& outer, const Function& begun);
  ~Builder() { end_trace(); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Value parameter(std::string name, Type type, AxisPlacements placements = {},
                  Loc loc = Loc::current());
  void result(std::string name, Value value, Loc loc = Loc::current());

  // A scalar or filled tensor.
  Value constant(Type type, double value, Loc loc = Loc::current());

  // The same value, placed on the axes that `placements` names; on other axes its placement stays
  // open. Its producer and its readers are cut to match (propagate_shardings), and its cotangent is
  // placed the same way. Annotations of lower priority are applied first.
  Value shard(Value value, const AxisPlacements& placements, int priority = 0,
              Loc loc = Loc::current());
  // Sets a priority for each of a parameter's placements.
  void set_priorities(Value parameter, std::vector<int> priorities, Loc loc = Loc::current());

  // Appends a node. Infers types; broadcasts nothing. `body`: of a scan or call.
  std::vector<Value> emit(Op op, const std::vector<Value>& inputs, Attrs attrs, Loc loc,
                          std::shared_ptr<const Function> body = nullptr);
  // Appends a copy of a node of this function, of the same types, on other inputs: outside every
  // region and derived from it.
  std::vector<Value> clone(NodeId node, const std::vector<Value>& inputs, Reason reason);
  Value emit1(Op op, const std::vector<Value>& inputs, Attrs attrs, Loc loc);

  // Removes the nodes from `first` on that no value of `keep` needs, and renumbers `keep`. Other
  // Values that name nodes from `first` on are invalid afterwards.
  void prune(NodeId first, std::vector<Value>& keep);

  Type type(ValueId id) const { return function_.types[id]; }
  const Function& function() const { return function_; }
  std::shared_ptr<const internal::Trace> trace() const { return trace_; }
  // Caches of derivatives of bodies; the builders of a function and of its bodies share them.
  internal::BodyCache& bodies() const { return *bodies_; }
  // The parameters come first, in the order in which they were declared. Afterwards the builder is
  // empty, and its values may not be used any more.
  Function build();

  // Names every node that is added while the guard lives, for messages, text and traces
  // ("layers.0").
  class Scope {
   public:
    Scope(Builder& builder, std::string name, Loc loc = Loc::current());
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Builder& builder_;
    uint32_t saved_;
  };

  // Nodes added while the guard lives belong to a new rematerialisation region.
  class Region {
   public:
    explicit Region(Builder& builder);
    ~Region();
    Region(const Region&) = delete;

   private:
    Builder& builder_;
    uint32_t saved_;
  };

  // Nodes added while the guard lives are derived: they carry the location of `origin` and the
  // reason.
  class Derived {
   public:
    Derived(Builder& builder, NodeId origin, Reason reason);
    ~Derived();
    Derived(const Derived&) = delete;

   private:
    Builder& builder_;
    NodeId saved_origin_;
    Reason saved_reason_;
  };

 private:
  void end_trace();
  void parameters_first();
  uint32_t intern_loc(Loc loc, const std::string& scope);
  std::vector<Value> append(Node node, std::vector<Type> types, NodeInfo info);
  void require_own(const std::vector<Value>& values, Op op) const;
  [[noreturn]] void fail(Error error, Loc loc) const;

  Function function_;
  std::vector<ValueId> parameters_;  // In the order of function_.parameters; ids as traced.
  std::map<std::tuple<std::string, int, std::string, uint32_t>, uint32_t> locs_;
  uint32_t scope_ = kNone;
  uint32_t region_ = 0;
  uint32_t regions_ = 0;
  NodeId origin_ = kNone;
  Reason reason_ = Reason::kUser;
  std::shared_ptr<internal::BodyCache> bodies_;
  std::shared_ptr<internal::Trace> trace_ = std::make_shared<internal::Trace>(this);
};

}  // namespace gangway
