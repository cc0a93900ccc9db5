#include "programs/train/model_sizes.h"

#include <algorithm>
#include <map>

namespace gangway::programs {
namespace {

using Sizes = TransformerConfig;

constexpr SizeName kNames[] = {
    {"layers", SizeKind::kWhole, "layers of the model"},
    {"dim", SizeKind::kWhole, "width of the residual stream"},
    {"heads", SizeKind::kWhole, "attention heads; they divide dim"},
    {"hidden", SizeKind::kWhole, "width of the feed-forward layer, or of each expert"},
    {"seq", SizeKind::kWhole, "tokens of a sequence"},
    {"vocab", SizeKind::kWhole, "rows of the embedding; at least 256, since a token is a byte"},
    {"experts", SizeKind::kList, "of each layer, 0: dense; or one number a layer, as 0,4,8"},
    {"top_k", SizeKind::kWhole, "experts that a token goes to"},
    {"groups", SizeKind::kWhole, "of the batch, in which tokens are routed"},
    {"capacity_factor", SizeKind::kReal, "of an expert's even share of tokens; 0: dropless"},
    {"renormalize", SizeKind::kBool,
     "a token's gates are divided by their sum; default: yes, but with a top_k of 1 no: the gate "
     "is "
     "the expert's probability then, or the router would learn nothing"},
    {"residual", SizeKind::kBool, "a dense expert beside the routed ones"},
    {"gated", SizeKind::kBool, "a gated feed-forward layer, as in Llama"},
    {"tied", SizeKind::kBool, "the head is the transposed embedding"},
};

// Returns the size of that kind with this name; null if there is none.
int64_t* whole(Sizes& model, std::string_view name) {
  if (name == "layers") return &model.layers;
  if (name == "dim") return &model.dim;
  if (name == "heads") return &model.heads;
  if (name == "hidden") return &model.hidden;
  if (name == "seq") return &model.seq;
  if (name == "vocab") return &model.vocab;
  if (name == "top_k") return &model.moe.top_k;
  if (name == "groups") return &model.moe.groups;
  return nullptr;
}

bool* yes_or_no(Sizes& model, std::string_view name) {
  if (name == "residual") return &model.moe.residual;
  if (name == "gated") return &model.gated;
  if (name == "tied") return &model.tied;
  return nullptr;
}

const char* expected(SizeKind kind) {
  switch (kind) {
    case SizeKind::kWhole: return "a whole number";
    case SizeKind::kReal: return "a number";
    case SizeKind::kBool: return "true or false";
    case SizeKind::kList: return "a whole number, or a list of them, one for each layer";
  }
  return "";
}

void set_experts(Sizes& model, const std::vector<int64_t>& experts) {
  model.experts.clear();
  if (experts.size() == 1) {
    model.moe.experts = experts[0];
  } else {
    model.experts = experts;
    model.moe.experts = *std::ranges::max_element(experts);
  }
}

void set_size(Sizes& model, const SaidSize& said) {
  const SizeName* known = find_size(said.name);
  GW_REQUIRE(known != nullptr, said.where, ": there is no size of this name");
  const auto* number = std::get_if<int64_t>(&said.value);
  const auto* list = std::get_if<std::vector<int64_t>>(&said.value);
  const auto* real = std::get_if<double>(&said.value);
  const auto* flag = std::get_if<bool>(&said.value);
  const auto require = [&](bool fits) {
    GW_REQUIRE(fits, said.where, ": expected ", expected(known->kind));
  };
  switch (known->kind) {
    case SizeKind::kWhole:
      require(number != nullptr);
      *whole(model, said.name) = *number;
      return;
    case SizeKind::kReal:
      require(number != nullptr || real != nullptr);
      model.moe.capacity_factor = real != nullptr ? *real : static_cast<double>(*number);
      return;
    case SizeKind::kBool:
      require(flag != nullptr);
      if (said.name == "renormalize") {
        model.moe.renormalize = *flag;
        return;
      }
      *yes_or_no(model, said.name) = *flag;
      return;
    case SizeKind::kList:
      require(number != nullptr || (list != nullptr && !list->empty()));
      set_experts(model, list != nullptr ? *list : std::vector<int64_t>{*number});
      return;
  }
}

// Checks that sizes fit one another. Errors name the places where the user gave them.
class Contradictions {
 public:
  Contradictions(LanguageModelConfig& config, const std::vector<SaidSize>& said) : config_(config) {
    for (const SaidSize& size : said) where_[size.name] = size.where;
  }

  void require_none() {
    Sizes& model = config_.model;
    for (const SizeName& size : kNames) {
      if (size.kind != SizeKind::kWhole) continue;
      const int64_t value = *whole(model, size.name);
      const int64_t least = size.name == "seq" ? 2 : size.name == "vocab" ? 256 : 1;
      GW_REQUIRE(value >= least && value <= kSizeMax, at(size.name), ": expected ", least, " to ",
                 kSizeMax, ", got ", value);
    }
    GW_REQUIRE(model.dim % model.heads == 0, at("heads", "dim"),
               ": heads must divide dim: ", model.heads, " heads", by("heads"), ", dim ", model.dim,
               by("dim"));
    GW_REQUIRE(model.experts.empty() || std::ssize(model.experts) == model.layers,
               at("experts", "layers"),
               ": experts by layer: expected as many as there are layers, ", model.layers,
               by("layers"), ", got ", model.experts.size(), by("experts"));
    require_experts();
  }

 private:
  void require_experts() {
    const Sizes& model = config_.model;
    const MoeConfig& moe = model.moe;
    std::vector<int64_t> counts = model.experts;
    if (counts.empty()) counts.push_back(moe.experts);
    for (const int64_t count : counts) {
      GW_REQUIRE(count >= 0 && count <= kExpertsMax, at("experts"), ": expected 0 to ", kExpertsMax,
                 ", got ", count);
      GW_REQUIRE(count == 0 || moe.top_k <= count, at("top_k", "experts"),
                 ": a token can't go to more experts than there are: top_k is ", moe.top_k,
                 by("top_k"), ", experts ", count, by("experts"));
    }
    if (std::ranges::max(counts) == 0) {
      for (const char* name : {"top_k", "groups", "capacity_factor", "renormalize", "residual"}) {
        GW_REQUIRE(!where_.contains(name), at(name), ": the model has no experts", by("experts"),
                   ": expected some, or nothing said of how tokens go to them");
      }
      return;
    }
    GW_REQUIRE(moe.capacity_factor >= 0 && moe.capacity_factor <= kRealSizeMax,
               at("capacity_factor"), ": expected 0 to ", kRealSizeMax, ", got ",
               moe.capacity_factor);
    const int64_t batch = config_.batch / std::max<int64_t>(1, config_.accumulate);
    GW_REQUIRE(batch % moe.groups == 0, at("groups"), ": groups must divide the batch of ",
               config_.accumulate > 1 ? "a microbatch" : "a step", ": ", moe.groups,
               " groups, batch ", batch);
  }

  // Returns the place where one of the two was given, and prefers the first.
  std::string at(std::string_view name, std::string_view other = {}) const {
    for (const std::string_view each : {name, other}) {
      if (const auto said = where_.find(each); said != where_.end()) return said->second;
    }
    return cat("train: ", name);
  }
  std::string by(std::string_view name) const {
    const auto said = where_.find(name);
    return said == where_.end() ? " (the model's own)" : cat(" (", said->second, ")");
  }

  LanguageModelConfig& config_;
  std::map<std::string, std::string, std::less<>> where_;
};

std::string list_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += cat(text.empty() ? "[" : ",", number);
  return text + "]";
}

}  // namespace

std::span<const SizeName> size_names() { return kNames; }

const SizeName* find_size(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, &SizeName::name);
  return found == std::end(kNames) ? nullptr : found;
}

void set_sizes(LanguageModelConfig& config, const std::vector<SaidSize>& said) {
  for (const SaidSize& size : said) set_size(config.model, size);
  if (!said.empty()) Contradictions(config, said).require_none();
}

std::string sizes_text(const TransformerConfig& model) {
  Sizes copy = model;
  std::string text;
  for (const SizeName& size : kNames) {
    if (size.name == "renormalize") {
      // Checkpoints from before `renormalize` divided all gates and do not have it.
      if (has_experts(model) && !renormalizes(model.moe)) text += ",\"renormalize\":false";
      continue;
    }
    std::string value;
    switch (size.kind) {
      case SizeKind::kWhole: value = cat(*whole(copy, size.name)); break;
      case SizeKind::kReal: value = cat(copy.moe.capacity_factor); break;
      case SizeKind::kBool: value = *yes_or_no(copy, size.name) ? "true" : "false"; break;
      case SizeKind::kList:
        value = copy.experts.empty() ? cat(copy.moe.experts) : list_text(copy.experts);
        break;
    }
    // Sizes that only experts have are left out for a model without them.
    const bool is_of_experts = size.name == "top_k" || size.name == "groups" ||
                               size.name == "capacity_factor" || size.name == "residual";
    if (is_of_experts && !has_experts(model)) continue;
    text += cat(text.empty() ? "{" : ",", "\"", size.name, "\":", value);
  }
  return text + "}";
}

std::string sizes_file_text(const TransformerConfig& model) {
  std::string text = sizes_text(model);
  // A file without `renormalize` and with a top_k of 1 is read as one whose gate is not divided.
  if (has_experts(model) && model.moe.top_k == 1 && renormalizes(model.moe))
    text.insert(text.size() - 1, ",\"renormalize\":true");
  return text + "\n";
}

}  // namespace gangway::programs
