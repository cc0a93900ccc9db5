// Caches the derivatives of the bodies of scans and calls while a function is traced, so that nodes
// that share a body share its derivatives too.
//
// Threads: one thread, the builders'.
// Ownership: keeps the bodies, so that an address means one body while the cache lives.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "ir/graph/function.h"

namespace gangway::internal {

// The parts of a node's ScanLayout that its adjoint depends on; the number of iterations is not
// one.
struct BodyLayout {
  bool repeats = false;      // A scan.
  size_t carries = 0;        // Number of carries: the first parameters and results.
  size_t first_stacked = 0;  // Parameters from here on are slices.

  auto operator<=>(const BodyLayout&) const = default;
};

// The derivative of a body: the function that a node's adjoint runs, and the origin of its
// operands. Its parameters are those that the lists name, in this order; the carries of an adjoint
// scan are the first two lists.
struct Adjoint {
  std::shared_ptr<const Function> function;
  std::vector<size_t> carried;  // The carries whose cotangents it carries.
  std::vector<size_t> summed;   // The invariants whose cotangents it adds up over iterations.
  std::vector<size_t> whole;    // The operands that it reads whole, beside slices.
  std::vector<size_t> slices;   // The stacked operands that it reads.
  std::vector<size_t> kept;     // The results that it reads.
  std::vector<size_t> given;    // The results, carries aside, whose cotangents it reads.
  std::vector<size_t> results;  // For each of its results: the operand whose cotangent it is.
};

// `wanted` is indexed by operand, `given` by result.
struct AdjointKey {
  const Function* body = nullptr;
  BodyLayout layout;
  std::vector<bool> wanted, given;

  friend bool operator<(const AdjointKey& a, const AdjointKey& b) {
    return std::tie(a.body, a.layout, a.wanted, a.given) <
           std::tie(b.body, b.layout, b.wanted, b.given);
  }
};

class BodyCache {
 public:
  // derive() computes the adjoint on the first request.
  template <class Derive>
  const Adjoint& adjoint(const AdjointKey& key, const std::shared_ptr<const Function>& body,
                         const Derive& derive) {
    auto found = adjoints_.find(key);
    if (found == adjoints_.end()) {
      found = adjoints_.emplace(key, derive()).first;
      owned_.push_back(body);
      are_adjoints_.insert(found->second.function.get());
    }
    return found->second;
  }
  bool is_adjoint(const Function* body) const { return are_adjoints_.contains(body); }

  // A function that calls name, extended by extend() so that its results include what its
  // derivative needs.
  template <class Extend>
  std::shared_ptr<const Function> callable(const std::shared_ptr<const Function>& function,
                                           const Extend& extend) {
    auto found = callables_.find(function.get());
    if (found == callables_.end()) {
      found = callables_.emplace(function.get(), extend()).first;
      owned_.push_back(function);
    }
    return found->second;
  }

 private:
  std::map<AdjointKey, Adjoint> adjoints_;
  std::set<const Function*> are_adjoints_;
  std::map<const Function*, std::shared_ptr<const Function>> callables_;
  std::vector<std::shared_ptr<const Function>> owned_;
};

}  // namespace gangway::internal
