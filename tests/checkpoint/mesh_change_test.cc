// A checkpoint that was written on one mesh is loaded on another, and no host holds a whole tensor.
#include <gtest/gtest.h>

#include <optional>

#include "checkpoint/safetensors_writer.h"
#include "gangway.h"
#include "programs/train/checkpoint.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/heap_count.h"

namespace gangway::programs {
namespace {

constexpr int64_t kPiece = 64 << 10;
constexpr const char* kStates[] = {"params.table", "params.norm", "adamw.m.table"};

// A mesh, and the placements that cut a model's table.
struct Layout {
  const char* name;
  Mesh mesh;
  AxisPlacements table;
};

Program model(const Layout& layout, uint64_t seed) {
  ProgramBuilder b("model", layout.mesh, seed);
  const Value table = b.state("params.table", normal(f32({512, 1024}), 1), layout.table);
  const Value moment = b.state("adamw.m.table", normal(f32({512, 1024}), 1), layout.table);
  b.output("sum", sum(table * moment) + sum(b.state("params.norm", normal(f32({6}), 1))));
  return b.build();
}

class MeshChangeTest : public testing::Test {
 protected:
  Slice slice_of(const Layout& layout, uint64_t seed) {
    const Slice slice = client_.allocate({.devices = layout.mesh.devices()});
    step_.emplace(slice.compile(model(layout, seed)));
    return slice;
  }

  // The most heap bytes that `body` held, beyond those that were held before.
  template <class Body>
  static int64_t most_taken(Body body) {
    const int64_t before = heap_bytes();
    restart_heap_peak();
    body();
    return heap_peak_bytes() - before;
  }

  const Client client_ = connect("local:2x2", {.in_process = true, .memory_bytes = 128 << 20});
  std::optional<Executable> step_;
  TempDir folder_;
};

TEST_F(MeshChangeTest, ACheckpointOfOneMeshIsLoadedOnAnyOtherPieceByPiece) {
  const Mesh four{{{"data", 4}}}, square{{{"a", 2}, {"b", 2}}};
  const Slice from = slice_of({"rows", four, {{"data", shard(0)}}}, 1);
  const int64_t saving = most_taken([&] {
    save_checkpoint(from, folder_.path(), {.step = 7, .position = 9, .seed = 1},
                    {.piece_bytes_max = kPiece});
  });
  EXPECT_LT(saving, 8 * kPiece) << "a whole tensor is 32 pieces";

  for (const Layout& layout :
       {Layout{"one device", {}, {}},
        {"columns and rows", square, {{"a", shard(1)}, {"b", shard(0)}}},
        {"columns, the second axis first", square, {{"a", shard(1, 1)}, {"b", shard(1)}}},
        {"half of the devices alike", square, {{"b", shard(0)}}}}) {
    SCOPED_TRACE(layout.name);
    const Slice to = slice_of(layout, 2);
    EXPECT_NE(to.read_state(kStates[0]).bytes, from.read_state(kStates[0]).bytes);
    TrainingPosition at;
    const int64_t loading =
        most_taken([&] { at = load_checkpoint(to, folder_.path(), {.piece_bytes_max = kPiece}); });
    EXPECT_LT(loading, 8 * kPiece);
    EXPECT_EQ(at.step, 7);
    EXPECT_EQ(at.position, 9u);
    for (const char* state : kStates)
      EXPECT_EQ(to.read_state(state).bytes, from.read_state(state).bytes) << state;
  }
}

TEST_F(MeshChangeTest, ParametersOfAnotherTypeAreConvertedPieceByPiece) {
  const TensorSpec table{"w", FileDType::kBF16, {512, 1024}};
  SafetensorsWriter out(folder_.path() / "foreign.safetensors", {table});
  out.append("w", std::vector<std::byte>(byte_size(table).value(), std::byte{0x3f}));
  out.finish();
  const Slice slice = slice_of({"rows", {{{"data", 4}}}, {{"data", shard(0)}}}, 1);
  int loaded = 0;
  const int64_t taken = most_taken([&] {
    loaded = load_parameters(slice, folder_.path() / "foreign.safetensors",
                             [](const std::string& name) { return name == "table" ? "w" : ""; },
                             {.piece_bytes_max = kPiece});
  });
  EXPECT_EQ(loaded, 1);
  EXPECT_LT(taken, 8 * kPiece) << "a whole tensor is 32 pieces";
  const HostTensor values = slice.read_state("params.table");
  for (const float value : values.as<float>()) ASSERT_EQ(value, 0x1.7ep-1f);
}

}  // namespace
}  // namespace gangway::programs
