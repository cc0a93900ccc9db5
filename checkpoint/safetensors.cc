#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "checkpoint/strict_json.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

struct FileDTypeRow {
  std::string_view name;
  size_t size;
  std::optional<DType> dtype = {};
};

// One row for each value of FileDType, in their order.
constexpr std::array<FileDTypeRow, 15> kDTypes = {{{"BOOL", 1, DType::kBool},
                                                   {"U8", 1},
                                                   {"I8", 1},
                                                   {"F8_E5M2", 1},
                                                   {"F8_E4M3", 1},
                                                   {"I16", 2},
                                                   {"U16", 2},
                                                   {"F16", 2},
                                                   {"BF16", 2, DType::kBF16},
                                                   {"I32", 4, DType::kI32},
                                                   {"U32", 4},
                                                   {"F32", 4, DType::kF32},
                                                   {"I64", 8},
                                                   {"U64", 8},
                                                   {"F64", 8, DType::kF64}}};

const FileDTypeRow& row(FileDType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

// Reads and verifies the fields of one tensor; every error begins with the file and the tensor.
class TensorParser {
 public:
  TensorParser(const std::string& file, const std::string& name)
      : subject_(cat(file, ": tensor ", Json(name).dump())), name_(name) {}

  TensorEntry parse(const Json& fields) const {
    GW_REQUIRE(fields.is_object(), subject_, ": expected an object, got ", fields.type_name());
    for (const auto& [key, value] : fields.items()) {
      GW_REQUIRE(key == "dtype" || key == "shape" || key == "data_offsets", subject_,
                 ": unknown field ", Json(key).dump());
    }
    TensorEntry entry;
    entry.spec = {.name = name_, .dtype = dtype(field(fields, "dtype")), .shape = {}};
    for (uint64_t extent : numbers(field(fields, "shape"), "shape")) {
      GW_REQUIRE(extent <= std::numeric_limits<int64_t>::max(), subject_, ": shape: the extent ",
                 extent, " is too large");
      entry.spec.shape.push_back(static_cast<int64_t>(extent));
    }
    std::vector<uint64_t> offsets = numbers(field(fields, "data_offsets"), "data_offsets");
    GW_REQUIRE(offsets.size() == 2, subject_, ": data_offsets: expected 2 numbers, got ",
               offsets.size());
    entry.begin = offsets[0];
    entry.end = offsets[1];
    GW_REQUIRE(entry.begin <= entry.end, subject_, ": data_offsets: the end ", entry.end,
               " is before the begin ", entry.begin);
    std::optional<uint64_t> expected = byte_size(entry.spec);
    GW_REQUIRE(expected, subject_, ": the size of its shape overflows");
    GW_REQUIRE(*expected == entry.end - entry.begin, subject_,
               ": data_offsets do not match dtype and shape: expected ", *expected, " bytes, got ",
               entry.end - entry.begin);
    return entry;
  }

 private:
  const Json& field(const Json& fields, const char* key) const {
    auto found = fields.find(key);
    GW_REQUIRE(found != fields.end(), subject_, ": the field \"", key, "\" is missing");
    return *found;
  }

  FileDType dtype(const Json& value) const {
    GW_REQUIRE(value.is_string(), subject_, ": dtype: expected a string, got ", value.type_name());
    const auto& name = value.get_ref<const std::string&>();
    for (size_t i = 0; i < kDTypes.size(); ++i) {
      if (kDTypes[i].name == name) return static_cast<FileDType>(i);
    }
    throw Error(ErrorKind::kInvalid, cat(subject_, ": unknown dtype ", value.dump()));
  }

  std::vector<uint64_t> numbers(const Json& value, const char* key) const {
    GW_REQUIRE(value.is_array(), subject_, ": ", key, ": expected an array, got ",
               value.type_name());
    std::vector<uint64_t> result;
    for (const Json& number : value) {
      GW_REQUIRE(number.is_number_unsigned(), subject_, ": ", key,
                 ": expected whole numbers of at most 64 bits, got ", number.dump());
      result.push_back(number.get<uint64_t>());
    }
    return result;
  }

  std::string subject_;
  const std::string& name_;
};

std::map<std::string, std::string> parse_metadata(const Json& fields, const std::string& file) {
  GW_REQUIRE(fields.is_object(), file, ": ", kMetadata, ": expected an object, got ",
             fields.type_name());
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : fields.items()) {
    GW_REQUIRE(value.is_string(), file, ": ", kMetadata, ": ", Json(key).dump(),
               ": expected a string, got ", value.type_name());
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Sorts the tensors by place and refuses holes, overlaps and a data section of another size.
void check_cover(std::vector<TensorEntry>& tensors, uint64_t data_bytes, const std::string& file) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const TensorEntry& tensor : tensors) {
    GW_REQUIRE(tensor.begin == covered, file, ": tensor ", Json(tensor.spec.name).dump(), " ",
               tensor.begin < covered ? "overlaps the one before it" : "leaves a hole before it",
               ": expected to begin at ", covered, ", got ", tensor.begin);
    covered = tensor.end;
  }
  GW_REQUIRE(covered == data_bytes, file, ": the file is ",
             covered < data_bytes ? "too long" : "truncated", ": expected ", covered,
             " bytes of data, got ", data_bytes);
}

}  // namespace

size_t size_of(FileDType dtype) { return row(dtype).size; }
std::string_view to_string(FileDType dtype) { return row(dtype).name; }
std::optional<DType> to_dtype(FileDType dtype) { return row(dtype).dtype; }

FileDType to_file_dtype(DType dtype) {
  size_t i = 0;
  while (kDTypes[i].dtype != dtype) ++i;
  return static_cast<FileDType>(i);
}

std::optional<uint64_t> byte_size(const TensorSpec& spec) {
  uint64_t size = size_of(spec.dtype);
  for (int64_t extent : spec.shape) {
    if (extent < 0 || __builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size)) {
      return std::nullopt;
    }
  }
  return size;
}

SafetensorsHeader lay_out(const std::vector<TensorSpec>& specs,
                          const std::map<std::string, std::string>& metadata,
                          const std::string& file) {
  SafetensorsHeader header = {.tensors = {}, .metadata = metadata};
  std::set<std::string_view> names;
  for (const TensorSpec& spec : specs) {
    GW_REQUIRE(spec.name != kMetadata && names.insert(spec.name).second, file, ": tensor ",
               spec.name, ": the name is ", spec.name == kMetadata ? "reserved" : "used twice");
    GW_REQUIRE(spec.shape.size() <= SafetensorsHeader::kRankMax, file, ": tensor ", spec.name,
               ": rank ", spec.shape.size(), " is above ", SafetensorsHeader::kRankMax);
    header.tensors.push_back({.spec = spec});
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return size_of(a.spec.dtype) > size_of(b.spec.dtype);
  });
  uint64_t place = 0;
  for (TensorEntry& tensor : header.tensors) {
    std::optional<uint64_t> bytes = byte_size(tensor.spec);
    tensor.begin = place;
    GW_REQUIRE(bytes && !__builtin_add_overflow(place, *bytes, &place), file, ": tensor ",
               tensor.spec.name, ": its size overflows");
    tensor.end = place;
  }
  return header;
}

std::string print_header(const SafetensorsHeader& header, const std::string& file) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  for (const TensorEntry& tensor : header.tensors) {
    json[tensor.spec.name] = {{"dtype", to_string(tensor.spec.dtype)},
                              {"shape", tensor.spec.shape},
                              {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kInvalid, cat(file, ": a name or a text is not UTF-8: ", error.what()));
  }
  text.resize(align_up(text.size(), 8), ' ');
  GW_REQUIRE(text.size() <= SafetensorsHeader::kBytesMax, file, ": the header of ", text.size(),
             " bytes is above the limit of ", SafetensorsHeader::kBytesMax);
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

uint64_t find_data(std::span<const std::byte> first, uint64_t file_bytes, const std::string& file) {
  GW_REQUIRE(first.size() >= kLengthBytes, file, ": the file is truncated: expected at least ",
             kLengthBytes, " bytes, got ", first.size());
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= std::to_integer<uint64_t>(first[i]) << (8 * i);
  GW_REQUIRE(length <= SafetensorsHeader::kBytesMax, file, ": the header of ", length,
             " bytes is above the limit of ", SafetensorsHeader::kBytesMax);
  GW_REQUIRE(length <= file_bytes - kLengthBytes, file, ": the file is truncated: expected ",
             length, " bytes of header, got ", file_bytes - kLengthBytes);
  return kLengthBytes + length;
}

SafetensorsHeader parse_header(std::span<const std::byte> head, uint64_t file_bytes,
                               const std::string& file) {
  const uint64_t data = find_data(head, file_bytes, file);
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + kLengthBytes,
                              data - kLengthBytes);
  GW_REQUIRE(text.starts_with('{'), file, ": the header does not begin with {");
  Json json = parse_strict_json(text, file, {.array_max = SafetensorsHeader::kRankMax});
  SafetensorsHeader header;
  for (const auto& [name, fields] : json.items()) {
    if (name == kMetadata) {
      header.metadata = parse_metadata(fields, file);
    } else {
      header.tensors.push_back(TensorParser(file, name).parse(fields));
    }
  }
  check_cover(header.tensors, file_bytes - data, file);
  return header;
}

}  // namespace gangway
