#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace gangway {
namespace {

using testing::HasSubstr;

std::string with_length(const std::string& json, const std::string& data = {}) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i));
  return bytes + json + data;
}

SafetensorsHeader parse(const std::string& bytes) {
  return parse_header(std::as_bytes(std::span(bytes)), bytes.size(), "x.safetensors");
}

std::string refusal_of(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(), HasSubstr("x.safetensors"));
    return error.message();
  }
  return "no error";
}

// One f32[2, 3] and one bf16[2], as other tools write them.
std::string small_file() {
  return with_length(R"({"__metadata__":{"format":"pt"},)"
                     R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
                     R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}   )",
                     std::string(28, '\7'));
}

TEST(Safetensors, AForeignFileParsesInFileOrder) {
  SafetensorsHeader header = parse(small_file());
  ASSERT_EQ(header.tensors.size(), 2);
  EXPECT_EQ(header.tensors[0].spec, (TensorSpec{"a", FileDType::kF32, {2, 3}}));
  EXPECT_EQ(header.tensors[1].spec, (TensorSpec{"b", FileDType::kBF16, {2}}));
  EXPECT_EQ(header.tensors[1].begin, 24);
  EXPECT_EQ(header.tensors[1].end, 28);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Safetensors, HeaderPrintsTheDocumentedBytesAndParsesBack) {
  SafetensorsHeader header =
      lay_out({{"b", FileDType::kBF16, {2}}, {"a \"q\"", FileDType::kF64, {}}}, {{"k", "v"}}, "x");
  std::string json = R"({"__metadata__":{"k":"v"},)"
                     R"("a \"q\"":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                     R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string printed = print_header(header, "x");
  EXPECT_EQ(printed, with_length(json));
  EXPECT_EQ(printed.size() % 8, 0);
  EXPECT_EQ(parse(printed + std::string(12, 'x')), header);
}

TEST(Safetensors, EveryTensorIsAlignedToItsElement) {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 15; ++i) {
    specs.push_back({cat("t", i), static_cast<FileDType>(i), {3}});
  }
  for (const TensorEntry& tensor : lay_out(specs, {}, "x").tensors) {
    EXPECT_EQ(tensor.begin % size_of(tensor.spec.dtype), 0) << tensor.spec.name;
  }
}

TEST(Safetensors, EmptyTensorsAndEmptyFilesAreValid) {
  EXPECT_TRUE(parse(with_length("{}")).tensors.empty());
  std::string json = R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})";
  EXPECT_EQ(parse(with_length(json)).tensors.size(), 1);
}

TEST(Safetensors, DTypesMapToThoseOfTheIr) {
  for (int i = 0; i < kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(to_dtype(to_file_dtype(dtype)), dtype);
    EXPECT_EQ(size_of(to_file_dtype(dtype)), size_of(dtype));
  }
  EXPECT_EQ(to_dtype(FileDType::kF16), std::nullopt);
  EXPECT_EQ(to_string(FileDType::kBF16), "BF16");
}

TEST(Safetensors, ATruncatedFileIsRefusedAtEveryLength) {
  std::string whole = small_file();
  parse(whole);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal_of(whole.substr(0, size)), "no error") << size;
  }
  EXPECT_THAT(refusal_of(whole.substr(0, whole.size() - 1)),
              HasSubstr("truncated: expected 28 bytes of data, got 27"));
}

TEST(Safetensors, AnOverLongFileIsRefused) {
  EXPECT_THAT(refusal_of(small_file() + "x"), HasSubstr("too long"));
}

TEST(Safetensors, AnyFlippedBitIsRefusedOrParsesToACoveringHeader) {
  std::string whole = small_file();
  for (size_t i = 0; i < whole.size() * 8; ++i) {
    std::string flipped = whole;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    try {
      const SafetensorsHeader parsed = parse(flipped);
      const uint64_t data = find_data(std::as_bytes(std::span(flipped)), flipped.size(), "x");
      EXPECT_EQ(parsed.data_bytes(), flipped.size() - data) << "bit " << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << "bit " << i;
    }
  }
}

TEST(Safetensors, AHeaderLongerThanTheLimitIsRefusedBeforeItIsRead) {
  std::string bytes(8, '\xff');
  EXPECT_THAT(refusal_of(bytes), HasSubstr("above the limit of 100000000"));
  EXPECT_THAT(refusal_of(std::string("\x64\0\0\0\0\0\0\0{}", 10)), HasSubstr("truncated"));
}

struct BadHeader {
  const char* json;
  const char* text;
};

TEST(Safetensors, EveryBadFieldIsRefusedInWords) {
  const BadHeader kCases[] = {
      {R"([])", "does not begin with {"},
      {R"({"a":1})", "tensor \"a\": expected an object, got number"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "\"data_offsets\" is missing"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":0}})", "unknown field \"x\""},
      {R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}})", "unknown dtype \"F7\""},
      {R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", "dtype: expected a string"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "shape: expected whole"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "shape: expected whole"},
      {R"({"a":{"dtype":"F32","shape":7,"data_offsets":[0,4]}})", "shape: expected an array"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "expected 2 numbers, got 1"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "is before the begin"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "expected 8 bytes, got 4"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
       "is too large"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})",
       "overflows"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})",
       "at most 64 bits"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       "the key \"a\" appears twice"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "appears twice"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
       "tensor \"b\" overlaps"},
      {R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})", "leaves a hole"},
      {R"({"__metadata__":{"k":1}})", "expected a string, got number"},
      {R"({"__metadata__":[]})", "expected an object, got array"},
      {R"({"a":{"dtype":"F32","shape":[[[[]]]],"data_offsets":[0,4]}})", "deeper than 3"},
      {"{\"\xff\":{}}", "bad JSON"},
      {"{\"a\\ud800\":{}}", "bad JSON"},
      {"{} {}", "bad JSON"},
      {"{", "bad JSON"},
  };
  for (const BadHeader& bad : kCases) {
    EXPECT_THAT(refusal_of(with_length(bad.json, "data")), HasSubstr(bad.text)) << bad.json;
  }
}

TEST(Safetensors, NestingAndArrayBombsAreRefusedEarly) {
  std::string deep = "{\"a\":" + std::string(1'000'000, '[');
  EXPECT_THAT(refusal_of(with_length(deep)), HasSubstr("nested deeper"));
  std::string wide = "{\"a\":{\"shape\":[0";
  for (int i = 0; i < 1'000'000; ++i) wide += ",0";
  EXPECT_THAT(refusal_of(with_length(wide + "]}}")), HasSubstr("longer than 64"));
}

TEST(Safetensors, ALayoutRefusesReservedRepeatedAndOversizedTensors) {
  EXPECT_THROW(lay_out({{"__metadata__", FileDType::kU8, {}}}, {}, "x"), Error);
  EXPECT_THROW(lay_out({{"a", FileDType::kU8, {}}, {"a", FileDType::kU8, {}}}, {}, "x"), Error);
  EXPECT_THROW(lay_out({{"a", FileDType::kF64, {int64_t{1} << 62}}}, {}, "x"), Error);
  EXPECT_THROW(lay_out({{"a", FileDType::kF64, {-1}}}, {}, "x"), Error);
  SafetensorsHeader not_utf8 = lay_out({{"\xff", FileDType::kU8, {}}}, {}, "x");
  EXPECT_THROW(print_header(not_utf8, "x"), Error);
}

}  // namespace
}  // namespace gangway
