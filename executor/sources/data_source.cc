#include "executor/sources/data_source.h"

#include <optional>
#include <set>

#include "data/text_corpus.h"
#include "data/windows.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

class Counter final : public DataSource {
 public:
  explicit Counter(const Type& type)
      : row_(type.elements() / type.dims[0]), elements_(type.elements()) {}
  void fill(uint64_t position, int64_t first, int64_t count, std::byte* out) const override {
    auto* to = reinterpret_cast<int32_t*>(out);
    // Unsigned: it wraps around.
    uint64_t next =
        position * static_cast<uint64_t>(elements_) + static_cast<uint64_t>(first * row_);
    for (int64_t i = 0; i < count * row_; ++i) to[i] = static_cast<int32_t>(next++);
  }

 private:
  int64_t row_, elements_;
};

template <class Windows>
class Text final : public DataSource {
 public:
  Text(TextCorpus corpus, bool heldout, const WindowOptions& options)
      : corpus_(std::move(corpus)),
        seq_(options.seq),
        windows_(heldout ? corpus_.heldout() : corpus_.train(), options) {}
  void fill(uint64_t position, int64_t first, int64_t count, std::byte* out) const override {
    windows_.fill(position, {static_cast<int>(first), static_cast<int>(first + count)},
                  {reinterpret_cast<int32_t*>(out), static_cast<size_t>(count * seq_)});
  }

 private:
  TextCorpus corpus_;
  int64_t seq_;
  Windows windows_;
};

template <class T>
T read(const Attrs& attrs, std::string_view name, const std::optional<T>& otherwise = {}) {
  const AttrValue* value = attrs.find(name);
  GW_REQUIRE(value != nullptr || otherwise, "source: attribute \"", name, "\" is missing");
  if (value == nullptr) return *otherwise;
  const T* read = std::get_if<T>(value);
  GW_REQUIRE(read != nullptr, "source: attribute \"", name, "\" must be of kind ",
             to_string(kind_of(AttrValue(T()))), ", got ", to_string(kind_of(*value)));
  return *read;
}

void allow_only(const Attrs& attrs, const std::set<std::string_view>& names) {
  for (const auto& [name, value] : attrs)
    GW_REQUIRE(names.contains(name), "source: has no attribute \"", name, "\"");
}

}  // namespace

std::unique_ptr<const DataSource> make_source(const Attrs& attrs, const Type& type) {
  const auto kind = read<std::string>(attrs, "kind");
  GW_REQUIRE(type.dtype == DType::kI32 && type.rank() >= 1 && type.elements() > 0, "source \"",
             kind, "\": fills i32[batch, ...], got ", to_string(type));
  if (kind == "counter") {
    allow_only(attrs, {"kind"});
    return std::make_unique<Counter>(type);
  }
  GW_REQUIRE(kind == "text", "source: unknown kind \"", kind, "\": expected text or counter");
  allow_only(attrs, {"kind", "path", "heldout", "seed"});
  GW_REQUIRE(type.rank() == 2 && type.dims[0] <= INT32_MAX && type.dims[1] <= INT32_MAX,
             "source \"text\": fills i32[batch, seq], got ", to_string(type));
  const WindowOptions options{static_cast<int>(type.dims[1]), static_cast<int>(type.dims[0]),
                              static_cast<uint64_t>(read<int64_t>(attrs, "seed", 0))};
  const bool heldout = read<bool>(attrs, "heldout", false);
  TextCorpus corpus = TextCorpus::load(read<std::string>(attrs, "path"));
  corpus.require_windows(static_cast<size_t>(options.seq));
  if (heldout) return std::make_unique<Text<SequentialWindows>>(std::move(corpus), true, options);
  return std::make_unique<Text<ShuffledWindows>>(std::move(corpus), false, options);
}

}  // namespace gangway
