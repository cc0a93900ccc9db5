// The sizes of a language model by their names. `gangway train` takes them as flags (--layers,
// --top-k) and as keys of a JSON file ("layers", "top_k"), and a checkpoint names its model by
// them.
//
// Threads: pure functions.
// Errors: kInvalid, beginning with the place at which the user gave the size ("sizes.json:3:
// \"dim\"", "--dim").
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

// Upper limits of sizes. Products of two whole sizes still fit in int64_t.
inline constexpr int64_t kSizeMax = int64_t{1} << 30;
inline constexpr int64_t kExpertsMax = 1 << 16;
inline constexpr double kRealSizeMax = 1 << 16;

struct SizeName {
  std::string_view name;  // With underscores.
  SizeKind kind;          // kList: whole numbers, one for all layers or one for each.
  std::string_view help;
};

// All sizes.
std::span<const SizeName> size_names();
// Returns null if no size has the name.
const SizeName* find_size(std::string_view name);

// One size that a user gave. A whole number may stand for a real one, and for a list of one.
struct SaidSize {
  std::string name;
  SizeValue value;
  std::string where;
};

// Sets the sizes one after another, so that a later one of a name wins, and then checks that all of
// the model's sizes fit one another. Sizes that the user has not given stay as they are.
void set_sizes(LanguageModelConfig& config, const std::vector<SaidSize>& said);

// All sizes of a model as the JSON object that a file of sizes may be: {"layers":3,"dim":128, ...}.
// It is compared with the text in earlier checkpoints, and has therefore no more sizes than they
// have.
std::string sizes_text(const TransformerConfig& model);
// Returns these sizes as the text of a file, from which set_sizes() gives this very model.
std::string sizes_file_text(const TransformerConfig& model);

}  // namespace gangway::programs
