// The operands and results of scans and calls that are needed: a result that nothing reads needs no
// operand, and a carry is needed only if something reads its last value or an iteration reads it.
//
// Threads: pure functions; a BodyUses belongs to one thread.
// Cost: a body is gone through a few times for each set of its results that is read, and all bodies
// together for kBodyNodesVisitedMax nodes at most: operands and results that are not decided by
// then count as needed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

inline constexpr uint64_t kBodyNodesVisitedMax = uint64_t{1} << 23;

// The operands and results that a scan or call must keep.
struct BodyUse {
  std::vector<bool> operands, results;
};

// Remembers its findings on each body, so the functions it was asked about must live as long.
class BodyUses {
 public:
  explicit BodyUses(uint64_t visits_max = kBodyNodesVisitedMax) : visits_left_(visits_max) {}

  // Indexed by value: whether a result of the function needs it.
  std::vector<bool> live_values(const Function& function);
  // `read` is indexed by result: whether anything reads it.
  const BodyUse& used_by(const Node& node, const std::vector<bool>& read);

 private:
  using Key = std::tuple<const Function*, size_t, std::vector<bool>>;  // Body, carries, read.

  std::vector<bool> live_values(const Function& function, const std::vector<bool>& wanted);
  BodyUse find_use(const Node& node, const std::vector<bool>& read);

  std::map<Key, BodyUse> known_;
  uint64_t visits_left_;
};

// The function with these of its results, or these of its parameters, alone. The others must be
// unused.
Function keep_results(Function function, const std::vector<bool>& kept);
Function keep_parameters(const Function& function, const std::vector<bool>& kept);

// The function with every body of a scan or call, innermost first, as `pass` gives it; each body
// once.
Function map_bodies(Function function, const std::function<Function(Function)>& pass);

}  // namespace gangway
