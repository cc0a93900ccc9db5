// Finds the exchanges of rows in one loop that put rows at the same places as those of another
// loop, although each may compute the permutation of rows for itself, from the same values.
//
// Values of both bodies are numbered: values with the same computation have one number (value
// numbering, Cocke and Schwartz 1970). A value that one loop passes to the other keeps its number.
//
// Threads: belongs to one thread.
// Ownership: keeps nothing of the loops.
// Cost: O(nodes of both bodies * log), once; then a look-up for each key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/conversions/row_exchange.h"

namespace gangway {

class AlikeKeys {
 public:
  // For two scans, or two calls, where the second takes results of the first.
  AlikeKeys(const Node& from, const Node& to);

  // The key of the exchanges in the body of the second that put rows at the same places as those
  // with this key in the body of the first.
  std::optional<RowsKey> in_second(const RowsKey& key) const;

 private:
  using Number = uint32_t;
  using Alike = std::tuple<uint32_t, std::string, const Function*, std::vector<Number>>;

  Number new_numbers(uint32_t count);
  void number_parameters(const Node& from);
  void hand_over(const Node& from, const Node& to);
  void number_nodes(const Function& body, std::vector<Number>& numbers);

  Number next_ = 0;
  std::map<Alike, Number> alike_;  // Op, attributes, body and operands: the first result's.
  // Operands that the first takes whole in all its iterations.
  std::map<ValueId, Number> operands_;
  std::vector<Number> first_, second_;  // Indexed by value of the bodies.
  std::map<std::tuple<Number, std::string, int64_t>, RowsKey> keys_;  // Rows, axes, bound.
};

}  // namespace gangway
