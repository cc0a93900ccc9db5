#include "programs/train/stored_states.h"

#include <algorithm>

#include "checkpoint/tensor_parts.h"
#include "ir/build/tree.h"

namespace gangway::programs {
namespace {

constexpr std::string_view kParameters = "params.";
constexpr std::string_view kOptimizer = "adamw.";

}  // namespace

StoredIn place_of(std::string_view state) {
  if (state.starts_with(kParameters)) return StoredIn::kModel;
  return state.starts_with(kOptimizer) ? StoredIn::kOptimizer : StoredIn::kStates;
}

std::vector<std::string> trained_states() { return {cat(kParameters, "*"), cat(kOptimizer, "*")}; }

std::string name_in_model(std::string_view state) {
  return std::string(state.substr(kParameters.size()));
}
std::string state_of(std::string_view name_in_model) { return cat(kParameters, name_in_model); }

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += cat(i == 0 ? "" : ", ", names[i]);
  return names.size() > kShown ? cat(text, " and ", names.size() - kShown, " more") : text;
}

std::vector<StateTensor> in_parts(const std::vector<StateTensor>& tensors,
                                  const IsWhole& is_whole) {
  std::vector<StateTensor> all;
  for (const StateTensor& tensor : tensors) {
    const std::vector<std::string> names = names_of_parts(tensor.name, tensor.type.dims);
    if (names.empty() || is_whole(tensor.name)) {
      all.push_back(tensor);
      continue;
    }
    StateTensor part = tensor;
    part.type.dims.erase(part.type.dims.begin() + 1);
    for (size_t i = 0; i < names.size(); ++i) {
      part.name = names[i];
      part.part = static_cast<int64_t>(i);
      all.push_back(part);
    }
  }
  return all;
}

std::vector<StateTensor> chosen_states(const Slice& slice, const std::vector<std::string>& patterns,
                                       const IsWhole& is_whole) {
  std::vector<StateTensor> tensors = in_parts(slice.state_tensors(), is_whole);
  GW_REQUIRE(!tensors.empty(), "checkpoint: the slice has no states: expected one on which a ",
             "program with states is compiled");
  std::vector<std::string> names;
  for (const StateTensor& tensor : tensors) names.push_back(tensor.name);
  for (const std::string& pattern : patterns) {
    GW_REQUIRE(
        std::ranges::any_of(names, [&](const std::string& name) { return matches(pattern, name); }),
        "checkpoint: no state matches \"", pattern, "\"; there are: ", some_of(names));
  }
  std::erase_if(tensors, [&](const StateTensor& tensor) {
    return !patterns.empty() && std::ranges::none_of(patterns, [&](const std::string& pattern) {
      return matches(pattern, tensor.name);
    });
  });
  return tensors;
}

std::vector<StateTensor> stored_in(StoredIn place, std::vector<StateTensor> tensors) {
  std::erase_if(tensors, [&](const StateTensor& tensor) { return place_of(tensor.name) != place; });
  if (place == StoredIn::kModel) {
    for (StateTensor& tensor : tensors) tensor.name = name_in_model(tensor.name);
  }
  return tensors;
}

}  // namespace gangway::programs
