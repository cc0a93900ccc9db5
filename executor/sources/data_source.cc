#include "executor/sources/data_source.h"

#include <filesystem>
#include <optional>
#include <set>

#include "data/text_corpus.h"
#include "data/windows.h"
#include "runtime/base/cut.h"
#include "runtime/base/error.h"
#include "runtime/os/trusted_files.h"

namespace gangway {
namespace {

constexpr size_t kPathBytesShown = 256;

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
  // Where row r of the part lies in a batch.
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

// Without links, so that what is read is what was looked at.
std::string path_to_read(const std::string& path, const TrustedFiles* readable) {
  if (readable == nullptr) return path;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (!error && readable->holds(real)) return real.string();
  throw Error(ErrorKind::kInvalid,
              cat("source \"text\": \"", cut(path, kPathBytesShown),
                  "\" is not below a folder that this executor trusts: ", readable->folders_text()),
              {},
              "programs of others than who runs the executor read from such folders alone: ask for "
              "\"gangway executor --trust DIR\"");
}

}  // namespace

std::unique_ptr<const DataSource> make_source(const Attrs& attrs, const Type& type,
                                              const TrustedFiles* readable) {
  const auto kind = read<std::string>(attrs, "kind");
  GW_REQUIRE(type.dtype == DType::kI32 && type.rank() >= 1 && type.elements() > 0, "source \"",
             kind, "\": fills i32[batch, ...], got ", to_string(type));
  if (kind == "counter") {
    allow_only(attrs, {"kind"});
    return std::make_unique<CounterSource>(type);
  }
  GW_REQUIRE(kind == "text", "source: unknown kind \"", kind, "\": expected text or counter");
  allow_only(attrs, {"kind", "path", "heldout", "seed"});
  GW_REQUIRE(type.rank() == 2 && type.dims[0] <= INT32_MAX && type.dims[1] <= INT32_MAX,
             "source \"text\": fills i32[batch, seq], got ", to_string(type));
  const WindowOptions options{static_cast<int>(type.dims[1]), static_cast<int>(type.dims[0]),
                              static_cast<uint64_t>(read<int64_t>(attrs, "seed", 0))};
  const bool heldout = read<bool>(attrs, "heldout", false);
  TextCorpus corpus = TextCorpus::load(path_to_read(read<std::string>(attrs, "path"), readable));
  corpus.require_windows(static_cast<size_t>(options.seq));
  if (heldout) return std::make_unique<Text<SequentialWindows>>(std::move(corpus), true, options);
  return std::make_unique<Text<ShuffledWindows>>(std::move(corpus), false, options);
}

}  // namespace gangway
