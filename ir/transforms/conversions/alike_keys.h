// Which exchanges of rows in one loop put rows where those of another loop do: each of them may
// compute the permutation of rows for itself, from the same values.
//
// Values of both bodies are numbered: what is computed alike has one number (value numbering, Cocke
// and Schwartz 1970). Numbers of what is handed over are those of where it comes from.
//
// Threads: belongs to one thread.
// Ownership: keeps nothing of the loops.
// Cost: O(nodes of both bodies * log), once; a key is looked up.
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
  // Of two scans, or two calls, of which the second takes results of the first.
  AlikeKeys(const Node& from, const Node& to);

  // The key in the body of the second of exchanges that put rows where those with this key in the
  // body of the first do.
  std::optional<RowsKey> in_second(const RowsKey& key) const;

 private:
  using Number = uint32_t;
  using Alike = std::tuple<uint32_t, std::string, const Function*, std::vector<Number>>;

  Number new_numbers(uint32_t count);
  void number_parameters(const Node& from);
  void hand_over(const Node& from, const Node& to);
  void number_nodes(const Function& body, std::vector<Number>& numbers);

  Number next_ = 0;
  std::map<Alike, Number> alike_;       // Op, attributes, body and operands: the first result's.
  std::map<ValueId, Number> operands_;  // What the first takes whole in all its iterations.
  std::vector<Number> first_, second_;  // By value of the bodies.
  std::map<std::tuple<Number, std::string, int64_t>, RowsKey> keys_;  // Rows, axes, bound.
};

}  // namespace gangway
