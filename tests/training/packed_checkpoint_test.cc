// Programs hold the weights of queries, keys and values side by side in one state; files hold them
// apart, as programs of earlier versions did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint/safetensors_writer.h"
#include "checkpoint/tensor_files.h"
#include "client/client.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "programs/train/checkpoint.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway::programs::packed_checkpoint_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kLayers = 2, kRows = 4, kColumns = 2;
const Type kPart = f32({kRows, kColumns});

using Bytes = std::map<std::string, std::vector<std::byte>>;

// Parameters and moments as this version holds them, or as earlier ones did. A run adds one.
Program model(bool is_packed) {
  ProgramBuilder b(is_packed ? "packed" : "apart", {}, 5);
  StateTree layer;
  if (is_packed) {
    layer.child("attn").set("qkv", side_by_side(normal(kPart, 1), {"q", "k", "v"}));
  } else {
    for (const char* name : {"q", "k", "v"}) layer.child("attn").set(name, normal(kPart, 1));
  }
  layer.child("attn").set("o", normal(kPart, 1));
  StateTree specs;
  specs.set("layers", stacked(layer, kLayers));
  double by = 0;
  for (const char* name : {"params", "adamw.m.params"}) {
    b.state(name, specs).for_each([&](const std::string&, const Value& state) {
      b.update(state, state + (is_packed ? 1.0 : ++by));
    });
  }
  return b.build();
}

// All tensors of a file, by name.
Bytes tensors_in(const std::filesystem::path& path) {
  const TensorFiles files = TensorFiles::open(path);
  Bytes all;
  for (const auto& [name, view] : files.tensors()) all[name] = view.read_all();
  return all;
}

class PackedCheckpoint : public FolderTest {
 protected:
  Slice holder(bool is_packed, bool is_run) {
    Slice slice = client_.allocate({});
    const Executable step = slice.compile(model(is_packed));
    if (is_run) step.run().wait();
    return slice;
  }
  Bytes saved(const Slice& slice, const std::string& name) const {
    const auto folder = save_checkpoint(slice, folder_ / name, {.step = 1});
    Bytes all = tensors_in(folder);
    all.merge(tensors_in(folder / "optimizer.safetensors"));
    return all;
  }
  // Writes one tensor with the elements 0, 1, 2 ...
  std::filesystem::path write_foreign(const std::string& name, const Dims& shape) const {
    const TensorSpec spec{name, FileDType::kF32, shape};
    const std::filesystem::path path = folder_ / cat("foreign", shape.size(), ".safetensors");
    std::vector<float> values(byte_size(spec).value() / sizeof(float));
    std::iota(values.begin(), values.end(), 0.0f);
    SafetensorsWriter out(path, {spec});
    out.append(name, std::as_bytes(std::span(values)));
    out.finish();
    return path;
  }

  Client client_ = connect("local:1x1", {.in_process = true, .memory_bytes = 16 << 20});
};

TEST_F(PackedCheckpoint, WeightsBeginAsWeightsOfTheirOwnDoAndAreStoredApart) {
  const Bytes packed = saved(holder(true, false), "packed");
  EXPECT_EQ(packed, saved(holder(false, false), "apart"));
  EXPECT_TRUE(packed.contains("layers.1.attn.k"));
  EXPECT_TRUE(packed.contains("adamw.m.params.layers.1.attn.k"));
}

TEST_F(PackedCheckpoint, CheckpointsOfEarlierVersionsAreLoadedWithTheirMoments) {
  const Bytes earlier = saved(holder(false, true), "earlier");
  const Slice now = holder(true, false);
  EXPECT_EQ(load_checkpoint(now, folder_ / "earlier").step, 1);
  EXPECT_EQ(saved(now, "now"), earlier);
}

TEST_F(PackedCheckpoint, AMissingWeightIsNamed) {
  const Slice apart = holder(false, true);
  save_checkpoint(apart, folder_, {.step = 1}, {.states = {"*.attn.q", "*.attn.k", "*.attn.o"}});
  EXPECT_THAT(error_text_of([&] { load_checkpoint(holder(true, false), folder_); }),
              HasSubstr("layers.0.attn.v"));
}

// A cluster keeps states as they lie (Slice::keep_checkpoints).
TEST_F(PackedCheckpoint, AFileThatHoldsThemSideBySideIsLoadedToo) {
  const Slice from = holder(true, true), to = holder(true, false);
  std::vector<TensorSpec> specs;
  for (const StateTensor& tensor : from.state_tensors())
    specs.push_back({tensor.name, FileDType::kF32, tensor.type.dims});
  SafetensorsWriter out(
      folder_ / "model.safetensors", specs,
      {{"version", "4"}, {"first_step", "0"}, {"first_position", "0"}, {"seed", "7"}});
  for (const StateTensor& tensor : from.state_tensors()) {
    const Box part = tensor.in_state(whole_box(tensor.type.dims));
    out.append(tensor.name, from.read_state(tensor.state, part).bytes);
  }
  out.finish();
  EXPECT_EQ(load_checkpoint(to, folder_).step, 4);
  EXPECT_EQ(saved(to, "to"), saved(from, "from"));
}

// GPT-2's files have "c_attn" with two dimensions; states of this project have three.
TEST_F(PackedCheckpoint, ForeignFilesMayHoldThemInOneTensor) {
  for (const Dims& shape : {Dims{kRows, 3 * kColumns}, Dims{kRows, 3, kColumns}}) {
    const Slice slice = holder(true, false);
    const auto path = write_foreign("h.1.attn.c_attn.weight", shape);
    const int loaded = load_parameters(slice, path, [](const std::string& name) {
      return name == "layers.1.attn.qkv" ? "h.1.attn.c_attn.weight" : std::string();
    });
    EXPECT_EQ(loaded, 1);
    const HostTensor k = slice.read_state("params.layers.attn.qkv",
                                          {.begin = {1, 0, 1, 0}, .size = {1, kRows, 1, kColumns}});
    EXPECT_THAT(k.as<float>(), testing::ElementsAre(2, 3, 8, 9, 14, 15, 20, 21));
  }
}

TEST_F(PackedCheckpoint, ForeignFilesMayHoldThemApart) {
  const Slice slice = holder(true, false);
  const auto path = write_foreign("h.0.k", {kRows, kColumns});
  const int loaded = load_parameters(slice, path, [](const std::string& name) {
    return name == "layers.0.attn.k" ? "h.0.k" : std::string();
  });
  EXPECT_EQ(loaded, 1);
  const HostTensor k = slice.read_state("params.layers.attn.qkv",
                                        {.begin = {0, 0, 1, 0}, .size = {1, kRows, 1, kColumns}});
  EXPECT_THAT(k.as<float>(), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(PackedCheckpoint, OtherTensorsOfTwoDimensionsAreNotTakenForThree) {
  const Slice slice = holder(true, false);
  const auto path = write_foreign("h.0.o", {kRows * kColumns});
  EXPECT_THAT(error_text_of([&] {
                load_parameters(slice, path, [](const std::string& name) {
                  return name == "layers.0.attn.o" ? "h.0.o" : std::string();
                });
              }),
              AllOf(HasSubstr("h.0.o"), HasSubstr("does not fit")));
}

}  // namespace
}  // namespace gangway::programs::packed_checkpoint_test
