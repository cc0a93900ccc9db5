#include "executor/sources/data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "ir/boxes/boxes.h"
#include "runtime/base/error.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class DataSourceTest : public testing::Test {
 protected:
  DataSourceTest() { std::ofstream(path_) << std::string(4000, 'x'); }

  // Makes a source with its text, as an executor would have loaded it.
  static std::unique_ptr<const DataSource> make(const Attrs& attrs, const Type& type) {
    const DataSourceSpec source = read_source(attrs, type);
    if (source.path.empty()) return make_source(source, nullptr);
    std::ifstream file(source.path);
    const auto text = std::make_shared<LoadedText>();
    text->bytes = {std::istreambuf_iterator<char>(file), {}};
    return make_source(source, text);
  }

  static std::string refusal_of(const Attrs& attrs, const Type& type) {
    try {
      make(attrs, type);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.what();
    }
    return "none";
  }

  TempDir folder_;
  const std::string path_ = (folder_.path() / "text").string();
  const Attrs text_{{"kind", std::string("text")}, {"path", path_}};
};

TEST_F(DataSourceTest, AnAttributeOfAnotherKindOrNameIsRefused) {
  const Type type = i32({4, 16});
  EXPECT_EQ(refusal_of(text_, type), "none");
  for (const auto& [name, value] : std::vector<std::pair<std::string, AttrValue>>{
           {"path", int64_t{1}}, {"heldout", int64_t{0}}, {"seed", 1.5}, {"shuffle", true}}) {
    Attrs attrs = text_;
    attrs.set(name, value);
    EXPECT_THAT(refusal_of(attrs, type), HasSubstr(cat("\"", name, "\""))) << name;
  }
}

TEST_F(DataSourceTest, ABatchTooLargeForItsReaderIsRefused) {
  EXPECT_THAT(refusal_of(text_, i32({(int64_t{1} << 32) + 4, 16})), HasSubstr("text"));
  EXPECT_THAT(refusal_of(text_, i32({4, (int64_t{1} << 32) + 16})), HasSubstr("text"));
}

std::vector<int32_t> filled(const DataSource& source, uint64_t position, const Box& part) {
  int64_t elements = 1;
  for (int64_t size : part.size) elements *= size;
  std::vector<int32_t> out(static_cast<size_t>(elements));
  source.fill(position, part, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// The parts that all devices of the mesh fill make up the batch, wherever each element lies.
void expect_one_batch(const DataSource& source, const Type& type, const MeshSharding& cut) {
  constexpr uint64_t kPosition = 1;
  const std::vector<int32_t> whole =
      filled(source, kPosition, {Dims(type.dims.size(), 0), type.dims});
  std::vector<int> seen(whole.size(), 0);
  for (int64_t device = 0; device < cut.mesh.devices(); ++device) {
    const Box part = box_of(type, cut, device);
    const std::vector<int32_t> got = filled(source, kPosition, part);
    for (size_t i = 0; i < got.size(); ++i) {
      int64_t at = 0, stride = 1, rest = static_cast<int64_t>(i);
      for (size_t d = part.size.size(); d-- > 0; rest /= part.size[d]) {
        at += (part.begin[d] + rest % part.size[d]) * stride;
        stride *= type.dims[d];
      }
      ++seen[static_cast<size_t>(at)];
      ASSERT_EQ(got[i], whole[static_cast<size_t>(at)])
          << to_string(cut.mesh, cut.sharding) << " device " << device << " element " << i;
    }
  }
  EXPECT_THAT(seen, testing::Each(testing::Ge(1)));
}

TEST_F(DataSourceTest, ABatchIsTheSameWhicheverDimensionsAreCutInWhichOrder) {
  std::ofstream(path_) << [] {
    std::string text(8000, 'x');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 37 >> 2);
    return text;
  }();
  const Mesh mesh{{{"a", 2}, {"b", 3}, {"c", 2}}};
  const std::vector<Sharding> of_matrix = {
      {replicate(), replicate(), replicate()}, {shard(0), shard(0), shard(1)},
      {shard(1), shard(1, 1), shard(1, 2)},    {shard(1, 2), shard(1), shard(1, 1)},
      {shard(0, 1), shard(1), shard(0)},       {replicate(), shard(1), shard(1)}};
  for (const Sharding& sharding : of_matrix) {
    for (const bool heldout : {false, true}) {
      Attrs attrs = text_;
      attrs.set("heldout", heldout);
      const Type type = i32({12, 24});
      expect_one_batch(*make(attrs, type), type, {mesh, sharding});
    }
    for (const Type& type : {i32({12, 12}), i32({12, 24, 3})})
      expect_one_batch(*make({{"kind", std::string("counter")}}, type), type, {mesh, sharding});
  }
}

TEST_F(DataSourceTest, ACounterWrapsAroundWhereverAUserPutsItsPosition) {
  const auto counter = make({{"kind", std::string("counter")}}, i32({2, 3}));
  std::vector<int32_t> row(3);
  for (const uint64_t position : {uint64_t{1}, uint64_t{1} << 62, ~uint64_t{0}}) {
    counter->fill(position, {{1, 0}, {1, 3}}, reinterpret_cast<std::byte*>(row.data()));
    for (uint64_t i = 0; i < 3; ++i)
      EXPECT_EQ(row[i], static_cast<int32_t>(static_cast<uint32_t>(position * 6 + 3 + i)));
  }
}

}  // namespace
}  // namespace gangway
