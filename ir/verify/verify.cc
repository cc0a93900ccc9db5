#include "ir/verify/verify.h"

#include <algorithm>

#include "ir/types/limits.h"
#include "ir/verify/verify_internal.h"
#include "runtime/base/quote.h"

namespace gangway {
namespace internal {

std::vector<Mistake> Report::take() {
  sort_by_line(mistakes_);
  return std::move(mistakes_);
}

std::optional<std::string> name_mistake(std::string_view name, std::string_view what) {
  if (name.empty()) return cat(what, ": the name is empty");
  if (name.size() > kNameBytesMax) {
    return cat(what, ": the name is too long: expected at most ", kNameBytesMax, " bytes, got ",
               name.size());
  }
  if (!is_utf8(name)) return cat(what, ": the name is not UTF-8 text");
  return std::nullopt;
}

std::optional<std::string> mesh_mistake(const Mesh& mesh) {
  if (mesh.axes.size() > kMeshAxesMax) {
    return cat("mesh: too many axes: expected at most ", kMeshAxesMax, ", got ", mesh.axes.size());
  }
  int64_t devices = 1;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    if (auto wrong = name_mistake(axis.name, "mesh axis")) return wrong;
    if (mesh.axis(axis.name) != static_cast<int>(i)) {
      return cat("mesh: two axes are called ", quote(axis.name));
    }
    if (axis.size < 1 || axis.size > kMeshDevicesMax / devices) {
      return cat("mesh: axis ", quote(axis.name), " has size ", axis.size,
                 ": expected at least 1, and at most ", kMeshDevicesMax, " devices in all");
    }
    devices *= axis.size;
  }
  return std::nullopt;
}

std::optional<std::string> type_mistake(const Type& type) {
  if (is_valid(type)) return std::nullopt;
  return cat("type ", spell(type), " is out of bounds: expected a known element type, at most ",
             kRankMax, " dimensions of at least 0 and at most 2^48 elements");
}

namespace {

std::optional<std::string> attr_mistake(const std::string& name, const AttrValue& value) {
  if (auto wrong = name_mistake(name, "attribute")) return wrong;
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (text->size() > kAttrTextBytesMax) {
      return cat("attribute ", quote(name), " is too long: expected at most ", kAttrTextBytesMax,
                 " bytes, got ", text->size());
    }
    if (!is_utf8(*text)) return cat("attribute ", quote(name), " is not UTF-8 text");
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    if (ints->size() > kAttrIntsMax) {
      return cat("attribute ", quote(name), " is too long: expected at most ", kAttrIntsMax,
                 " numbers, got ", ints->size());
    }
  } else if (const auto* dtype = std::get_if<DType>(&value)) {
    if (static_cast<int>(*dtype) >= kDTypeCount) {
      return cat("attribute ", quote(name), " is of unknown element type ",
                 static_cast<int>(*dtype));
    }
  }
  return std::nullopt;
}

std::optional<std::string> placement_mistake(const Type& type, const MeshAxis& axis,
                                             const Placement& placement) {
  if (placement.kind > PlacementKind::kPartial) {
    return cat("sharding: axis ", quote(axis.name), " has the unknown placement ",
               static_cast<int>(placement.kind));
  }
  if (placement.kind == PlacementKind::kShard &&
      (placement.dim < 0 || placement.dim >= type.rank())) {
    return cat("sharding: axis ", quote(axis.name), " cuts dimension ", placement.dim, ": ",
               spell(type), " has ", type.rank(), " dimensions");
  }
  if (placement.kind == PlacementKind::kPartial && type.dtype == DType::kBool) {
    return cat("sharding: axis ", quote(axis.name), " is partial: ", spell(type),
               " cannot be a sum");
  }
  if (placement.order < 0 || placement.order >= static_cast<int>(kMeshAxesMax)) {
    return cat("sharding: axis ", quote(axis.name), " cuts in the order ", placement.order,
               ": expected 0 to ", kMeshAxesMax - 1);
  }
  if (placement.order != 0 && placement.kind != PlacementKind::kShard) {
    return cat("sharding: axis ", quote(axis.name), " has the cut order ", placement.order,
               ", but cuts nothing");
  }
  if (placement.reduction > Reduction::kMin) {
    return cat("sharding: axis ", quote(axis.name), " has the unknown reduction ",
               static_cast<int>(placement.reduction));
  }
  if (placement.reduction != Reduction::kSum && !is_partial(placement)) {
    return cat("sharding: axis ", quote(axis.name), " has the reduction ",
               to_string(placement.reduction), ", but is not partial");
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> attrs_mistake(const Attrs& attrs) {
  if (attrs.size() > kAttrsMax) {
    return cat("too many attributes: expected at most ", kAttrsMax, ", got ", attrs.size());
  }
  for (const auto& [name, value] : attrs) {
    if (auto wrong = attr_mistake(name, value)) return wrong;
  }
  return std::nullopt;
}

std::optional<std::string> sharding_mistake(const Type& type, const Mesh& mesh,
                                            const Sharding& sharding, Cuts cuts) {
  if (sharding.size() != mesh.axes.size()) {
    return cat("sharding: expected ", mesh.axes.size(), " placements, one for each axis of mesh ",
               to_string(mesh), ", got ", sharding.size());
  }
  for (size_t i = 0; i < sharding.size(); ++i) {
    if (auto wrong = placement_mistake(type, mesh.axes[i], sharding[i])) return wrong;
  }
  if (cuts == Cuts::kAny || cuts_evenly(type, mesh, sharding)) return std::nullopt;
  return cat("sharding: ", to_string(mesh, sharding), " does not cut ", spell(type),
             " into equal parts over mesh ", to_string(mesh));
}

std::optional<std::string> placements_mistake(const Type& type, const Mesh& mesh,
                                              const AxisPlacements& placements, Cuts cuts) {
  for (const auto& [name, placement] : placements) {
    if (placement.kind == PlacementKind::kPartial) {
      return cat("sharding: axis ", quote(name), " is partial: only results inside a function are");
    }
  }
  try {
    return sharding_mistake(type, mesh, resolve(mesh, placements), cuts);
  } catch (const Error& error) {
    return error.message();
  }
}

std::string shown(std::string_view name) {
  if (!is_utf8(name)) return "(not text)";
  return name.size() <= 80 ? quote(name) : cat("(a name of ", name.size(), " bytes)");
}

std::string spell(const Type& type) {
  if (static_cast<int>(type.dtype) < kDTypeCount && type.rank() <= 4 * kRankMax) {
    return to_string(type);
  }
  return cat("(element type ", static_cast<int>(type.dtype), ", ", type.rank(), " dimensions)");
}

std::string spell(const std::vector<Type>& types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    if (i == 8) return cat(text, ", and ", types.size() - i, " more");
    text += (i == 0 ? "" : ", ") + spell(types[i]);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace internal

void sort_by_line(std::vector<Mistake>& mistakes) {
  std::ranges::stable_sort(mistakes, [](const Mistake& a, const Mistake& b) {
    return a.file != b.file ? a.file < b.file : a.line < b.line;
  });
}

Error to_error(const std::vector<Mistake>& mistakes, std::string_view subject) {
  auto at = [](const Mistake& mistake) {
    return mistake.file.empty() ? std::string()
                                : to_string(Loc{mistake.file.c_str(), mistake.line});
  };
  bool reserved = std::ranges::all_of(
      mistakes, [](const Mistake& m) { return m.kind == ErrorKind::kUnimplemented; });
  ErrorKind kind = reserved ? ErrorKind::kUnimplemented : ErrorKind::kInvalid;
  if (mistakes.size() == 1) return Error(kind, mistakes[0].message, {.at = at(mistakes[0])});
  std::string text = cat(subject, ": ", mistakes.size(), " mistakes");
  for (size_t i = 0; i < mistakes.size(); ++i) {
    text += cat("\n", i + 1, ". ", mistakes[i].message);
    if (std::string place = at(mistakes[i]); !place.empty()) text += "\n  at " + place;
  }
  return Error(kind, text);
}

std::vector<Mistake> verify(const Function& function) {
  internal::Report report;
  std::set<const Function*> seen;
  internal::verify_function(function, 0, {}, seen, report);
  return report.take();
}

void require_valid(const Function& function) {
  auto mistakes = verify(function);
  if (!mistakes.empty()) throw to_error(mistakes, "function " + internal::shown(function.name));
}

void require_valid(const Program& program) {
  auto mistakes = verify(program);
  if (!mistakes.empty()) throw to_error(mistakes, "program " + internal::shown(program.name));
}

}  // namespace gangway
