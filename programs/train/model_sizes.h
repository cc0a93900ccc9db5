// The sizes of a language model by their names, as users say them: `gangway train` takes them as
// flags (--layers, --top-k) and as keys of a JSON file ("layers", "top_k"), and a checkpoint says
// with them of which model it is.
//
// Threads: pure functions.
// Errors: kInvalid, beginning with where the user said it ("sizes.json:3: \"dim\"", "--dim").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "programs/train/language_model.h"

namespace gangway::programs {

using SizeValue = std::variant<bool, int64_t, double, std::vector<int64_t>>;
enum class SizeKind { kWhole, kReal, kBool, kList };

// What sizes may be at most: of whole ones, products of two stay numbers.
inline constexpr int64_t kSizeMax = int64_t{1} << 30;
inline constexpr int64_t kExpertsMax = 1 << 16;
inline constexpr double kRealSizeMax = 1 << 16;

struct SizeName {
  std::string_view name;  // With underscores.
  SizeKind kind;          // kList: whole numbers, one for all layers or one for each.
  std::string_view help;
};

// All that there are.
std::span<const SizeName> size_names();
// Null: there is none of that name.
const SizeName* find_size(std::string_view name);

// One size that somebody said. A whole number may stand for a real one, and for a list of one.
struct SaidSize {
  std::string name;
  SizeValue value;
  std::string where;
};

// Sets them one after another, so that a later one of a name wins, and then looks whether all of
// the model's sizes fit one another; what the user has not said stays as it is.
void set_sizes(LanguageModelConfig& config, const std::vector<SaidSize>& said);

// All sizes of a model as the JSON object that a file of sizes may be: {"layers":3,"dim":128, ...}.
// What is compared with earlier checkpoints: it says no more than they do.
std::string sizes_text(const TransformerConfig& model);
// The same as the text of a file, from which set_sizes() makes this very model.
std::string sizes_file_text(const TransformerConfig& model);

}  // namespace gangway::programs
