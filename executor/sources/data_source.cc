#include "executor/sources/data_source.h"

#include <optional>
#include <set>

#include "data/text_corpus.h"
#include "protocol/install.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

class CounterSource final : public DataSource {
 public:
  explicit CounterSource(const Type& type) : type_(type) {}
  void fill(uint64_t position, const Box& part, std::byte* out) const override {
    auto* to = reinterpret_cast<int32_t*>(out);
    // Unsigned: it wraps around.
    const uint64_t first = position * static_cast<uint64_t>(type_.elements());
    const int64_t row = part.size.back();
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < part.size.size(); ++d) rows *= part.size[d];
    for (int64_t r = 0; r < rows; ++r) {
      uint64_t next = first + static_cast<uint64_t>(begin_of(part, r));
      for (int64_t i = 0; i < row; ++i) *to++ = static_cast<int32_t>(next++);
    }
  }

 private:
  // Offset in a batch of row r of the part.
  int64_t begin_of(const Box& part, int64_t r) const {
    int64_t at = part.begin.back(), stride = type_.dims.back();
    for (size_t d = part.size.size() - 1; d-- > 0; r /= part.size[d]) {
      at += (part.begin[d] + r % part.size[d]) * stride;
      stride *= type_.dims[d];
    }
    return at;
  }

  const Type type_;
};

template <class Windows>
class Text final : public DataSource {
 public:
  Text(TextCorpus corpus, bool heldout, const WindowOptions& options)
      : corpus_(std::move(corpus)),
        windows_(heldout ? corpus_.heldout() : corpus_.train(), options) {}
  void fill(uint64_t position, const Box& part, std::byte* out) const override {
    const auto range = [&](size_t dim) {
      return IndexRange{static_cast<int>(part.begin[dim]),
                        static_cast<int>(part.begin[dim] + part.size[dim])};
    };
    windows_.fill(position, range(0), range(1),
                  {reinterpret_cast<int32_t*>(out),
                   static_cast<size_t>(part.size[0]) * static_cast<size_t>(part.size[1])});
  }

 private:
  TextCorpus corpus_;
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

DataSourceSpec read_source(const Attrs& attrs, const Type& type) {
  const auto kind = read<std::string>(attrs, "kind");
  GW_REQUIRE(type.dtype == DType::kI32 && type.rank() >= 1 && type.elements() > 0, "source \"",
             kind, "\": fills i32[batch, ...], got ", to_string(type));
  if (kind == "counter") {
    allow_only(attrs, {"kind"});
    return {.type = type, .path = {}, .windows = {}};
  }
  GW_REQUIRE(kind == "text", "source: unknown kind \"", kind, "\": expected text or counter");
  allow_only(attrs, {"kind", "path", "heldout", "seed"});
  GW_REQUIRE(type.rank() == 2 && type.dims[0] <= INT32_MAX && type.dims[1] <= INT32_MAX,
             "source \"text\": fills i32[batch, seq], got ", to_string(type));
  DataSourceSpec source{.type = type,
                        .path = read<std::string>(attrs, "path"),
                        .windows = {static_cast<int>(type.dims[1]), static_cast<int>(type.dims[0]),
                                    static_cast<uint64_t>(read<int64_t>(attrs, "seed", 0))},
                        .heldout = read<bool>(attrs, "heldout", false)};
  GW_REQUIRE(!source.path.empty() && source.path.size() <= kTextPathBytesMax,
             "source \"text\": attribute \"path\": expected 1 to ", kTextPathBytesMax,
             " bytes, got ", source.path.size());
  return source;
}

std::unique_ptr<const DataSource> make_source(const DataSourceSpec& source, TextPtr text) {
  if (source.path.empty()) return std::make_unique<CounterSource>(source.type);
  const std::string* const bytes = &text->bytes;
  const TextCorpus corpus(source.path, std::shared_ptr<const std::string>(std::move(text), bytes));
  corpus.require_windows(static_cast<size_t>(source.windows.seq));
  if (source.heldout)
    return std::make_unique<Text<SequentialWindows>>(corpus, true, source.windows);
  return std::make_unique<Text<ShuffledWindows>>(corpus, false, source.windows);
}

}  // namespace gangway
