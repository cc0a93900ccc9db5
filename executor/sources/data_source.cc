#include "executor/sources/data_source.h"

#include "executor/data/text_corpus.h"
#include "executor/data/windows.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

class Counter final : public DataSource {
 public:
  explicit Counter(const Type& type)
      : row_(type.elements() / type.dims[0]), elements_(type.elements()) {}
  void fill(uint64_t position, int64_t first, int64_t count, std::byte* out) const override {
    auto* to = reinterpret_cast<int32_t*>(out);
    const auto base = static_cast<int64_t>(position) * elements_ + first * row_;
    for (int64_t i = 0; i < count * row_; ++i) to[i] = static_cast<int32_t>(base + i);
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

const AttrValue& need(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  GW_REQUIRE(value != nullptr, "source: attribute \"", name, "\" is missing");
  return *value;
}

}  // namespace

std::unique_ptr<const DataSource> make_source(const Attrs& attrs, const Type& type) {
  const auto* kind = std::get_if<std::string>(&need(attrs, "kind"));
  GW_REQUIRE(kind != nullptr, "source: \"kind\" must be a string");
  GW_REQUIRE(type.dtype == DType::kI32 && type.rank() >= 1 && type.elements() > 0, "source \"",
             *kind, "\": fills i32[batch, ...], got ", to_string(type));
  if (*kind == "counter") return std::make_unique<Counter>(type);
  GW_REQUIRE(*kind == "text", "source: unknown kind \"", *kind, "\": expected text or counter");
  const auto* path = std::get_if<std::string>(&need(attrs, "path"));
  GW_REQUIRE(path != nullptr && type.rank() == 2, "source \"", *kind,
             "\": needs a path and fills i32[batch, seq], got ", to_string(type));
  const AttrValue* seed = attrs.find("seed");
  const auto* number = seed == nullptr ? nullptr : std::get_if<int64_t>(seed);
  const WindowOptions options{static_cast<int>(type.dims[1]), static_cast<int>(type.dims[0]),
                              number == nullptr ? 0 : static_cast<uint64_t>(*number)};
  TextCorpus corpus = TextCorpus::load(*path);
  corpus.require_windows(static_cast<size_t>(options.seq));
  const AttrValue* heldout = attrs.find("heldout");
  if (heldout == nullptr || *heldout == AttrValue(false))
    return std::make_unique<Text<ShuffledWindows>>(std::move(corpus), false, options);
  return std::make_unique<Text<SequentialWindows>>(std::move(corpus), true, options);
}

}  // namespace gangway
