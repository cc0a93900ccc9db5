// The static attributes of a node: a small sorted map from name to value.
//
// The op's row of the op table (ir/op_table/op.h) lists the attributes that the op takes, their
// kinds and their defaults; a verified node carries exactly the attributes of its row, so readers
// need no defaults.
// Threads: a value; safe anywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/types/dtype.h"

namespace gangway {

using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType>;

// The alternatives of AttrValue, in its order.
enum class AttrKind : uint8_t { kBool, kInt, kDouble, kString, kInts, kDType };
const char* to_string(AttrKind kind);
inline AttrKind kind_of(const AttrValue& value) { return static_cast<AttrKind>(value.index()); }

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items);

  const AttrValue* find(std::string_view name) const;
  void set(std::string_view name, AttrValue value);
  size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  // The value of an attribute that the op's row declares. Missing or of another kind is a bug
  // (GW_ASSERT).
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& ints(std::string_view name) const;
  DType dtype(std::string_view name) const;

  // Doubles compare by bits, but one NaN is like another: equal means the same graph.
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;  // Sorted by name, names unique.
};

}  // namespace gangway
