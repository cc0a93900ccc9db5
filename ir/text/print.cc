#include <charconv>
#include <cmath>

#include "ir/text/letters.h"
#include "ir/text/print_internal.h"
#include "ir/verify/verify_internal.h"

namespace gangway {
namespace internal {
namespace {

// Shortest digits that read back as the same number, always with a mark of a real.
std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  std::string text(digits, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <class Items, class Print>
std::string join(const Items& items, Print print) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + print(item);
  return text;
}

std::string print_item(const std::string& axis, const Placement& placement) {
  return cat(print_name(axis), ": ", to_string(placement));
}

}  // namespace

std::string print_name(std::string_view name) {
  bool plain = !name.empty() && is_letter(name.front());
  for (char c : name) plain = plain && (is_letter(c) || is_digit(c));
  return plain ? std::string(name) : quote(name);
}

std::string print_function_name(std::string_view name) {
  bool plain = !name.empty();
  for (char c : name) plain = plain && (is_letter(c) || is_digit(c) || c == '.');
  return "@" + (plain ? std::string(name) : quote(name));
}

std::string print_mesh(const Mesh& mesh) {
  return cat("{",
             join(mesh.axes,
                  [](const MeshAxis& axis) { return cat(print_name(axis.name), ": ", axis.size); }),
             "}");
}

std::string print_type(const Type& type) { return spell(type); }

std::string print_placements(const AxisPlacements& placements) {
  return cat("{",
             join(placements, [](const auto& item) { return print_item(item.first, item.second); }),
             "}");
}

std::string print_sharding(const Mesh& mesh, const Sharding& sharding) {
  AxisPlacements named;
  for (size_t i = 0; i < sharding.size(); ++i) {
    if (sharding[i] == replicate()) continue;
    named.emplace_back(i < mesh.axes.size() ? mesh.axes[i].name : cat("axis ", i), sharding[i]);
  }
  return print_placements(named);
}

std::string print_attr(const AttrValue& value) {
  switch (kind_of(value)) {
    case AttrKind::kBool: return std::get<bool>(value) ? "true" : "false";
    case AttrKind::kInt: return std::to_string(std::get<int64_t>(value));
    case AttrKind::kDouble: return print_real(std::get<double>(value));
    case AttrKind::kString: return quote(std::get<std::string>(value));
    case AttrKind::kInts: return to_string(std::get<std::vector<int64_t>>(value));
    case AttrKind::kDType: {
      DType dtype = std::get<DType>(value);
      return static_cast<int>(dtype) < kDTypeCount ? std::string(to_string(dtype)) : "?";
    }
  }
  return "?";
}

std::string print_attrs(const Attrs& attrs) {
  return cat("{",
             join(attrs,
                  [](const auto& item) {
                    return cat(print_name(item.first), " = ", print_attr(item.second));
                  }),
             "}");
}

}  // namespace internal

std::string print(const Function& function, PrintOptions options) {
  BodyTable bodies;
  bodies.add(function);
  return internal::print_bodies(bodies, options, "") +
         internal::print_function(function, options, bodies, "");
}

}  // namespace gangway
