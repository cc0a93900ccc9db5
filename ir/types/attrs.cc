#include "ir/types/attrs.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/base/error.h"

namespace gangway {
namespace {

template <class T>
const T& get(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  GW_ASSERT(value != nullptr, "attribute ", name, " is missing");
  const T* typed = std::get_if<T>(value);
  GW_ASSERT(typed != nullptr, "attribute ", name, " is of kind ", to_string(kind_of(*value)));
  return *typed;
}

}  // namespace

const char* to_string(AttrKind kind) {
  switch (kind) {
    case AttrKind::kBool: return "bool";
    case AttrKind::kInt: return "int";
    case AttrKind::kDouble: return "double";
    case AttrKind::kString: return "string";
    case AttrKind::kInts: return "ints";
    case AttrKind::kDType: return "dtype";
  }
  return "?";
}

Attrs::Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items) {
  for (const auto& [name, value] : items) set(name, value);
}

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Attrs::set(std::string_view name, AttrValue value) {
  auto at =
      std::lower_bound(items_.begin(), items_.end(), name,
                       [](const auto& item, std::string_view key) { return item.first < key; });
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.emplace(at, std::string(name), std::move(value));
  }
}

bool operator==(const Attrs& a, const Attrs& b) {
  return std::ranges::equal(a.items_, b.items_, [](const auto& x, const auto& y) {
    if (x.first != y.first) return false;
    const double* p = std::get_if<double>(&x.second);
    const double* q = std::get_if<double>(&y.second);
    if (p == nullptr || q == nullptr) return x.second == y.second;
    if (std::isnan(*p) || std::isnan(*q)) return std::isnan(*p) && std::isnan(*q);
    return std::bit_cast<uint64_t>(*p) == std::bit_cast<uint64_t>(*q);
  });
}

bool Attrs::flag(std::string_view name) const { return get<bool>(*this, name); }
int64_t Attrs::integer(std::string_view name) const { return get<int64_t>(*this, name); }
double Attrs::real(std::string_view name) const { return get<double>(*this, name); }
const std::string& Attrs::text(std::string_view name) const {
  return get<std::string>(*this, name);
}
const std::vector<int64_t>& Attrs::ints(std::string_view name) const {
  return get<std::vector<int64_t>>(*this, name);
}
DType Attrs::dtype(std::string_view name) const { return get<DType>(*this, name); }

}  // namespace gangway
