// Checkpoints of programs that stack their layers and of programs that do not are the same files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_writer.h"
#include "checkpoint/tensor_files.h"
#include "client/client.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "programs/train/checkpoint.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway::programs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kLayers = 3, kRows = 4, kColumns = 2;

StateTree layer() {
  StateTree tree, attn;
  attn.set("q", normal(f32({kRows, kColumns}), 1));
  tree.set("attn", attn);
  tree.set("norm", normal(f32({kColumns}), 1));
  return tree;
}

// A model and a moment of each parameter. A run adds one to every state.
Program model(bool is_stacked, int64_t first = 0, const char* moments = "adamw.m.params") {
  ProgramBuilder b(is_stacked ? "stacked" : "unrolled", {}, 5);
  StateTree specs;
  specs.set("embed", normal(f32({5}), 1));
  if (is_stacked) {
    specs.set("layers", stacked(layer(), kLayers, first));
  } else {
    for (int64_t i = 0; i < kLayers; ++i)
      specs.child("layers").set(std::to_string(first + i), layer());
  }
  for (const char* name : {"params", moments}) {
    b.state(name, specs).for_each([&](const std::string&, const Value& state) {
      b.update(state, state + 1);
    });
  }
  return b.build();
}

class StackedCheckpoint : public FolderTest {
 protected:
  // A slice that holds the states of the model.
  Slice holder(bool is_stacked, int64_t first = 0) {
    Slice slice = client_.allocate({});
    slice.compile(model(is_stacked, first)).run().wait();
    return slice;
  }

  // Every tensor of a slice's states, as files hold them.
  static std::map<std::string, std::vector<std::byte>> tensors_of(const Slice& slice) {
    std::map<std::string, std::vector<std::byte>> tensors;
    for (const StateTensor& tensor : slice.state_tensors()) {
      const Box part = tensor.in_state(whole_box(tensor.type.dims));
      tensors[tensor.name] = slice.read_state(tensor.state, part).bytes;
    }
    return tensors;
  }

  static std::vector<std::string> names_in(const std::filesystem::path& file) {
    std::vector<std::string> names;
    const TensorFiles files = TensorFiles::open(file);
    for (const auto& [name, view] : files.tensors()) names.push_back(name);
    return names;
  }

  Client client_ = connect("local:1x1", {.in_process = true, .memory_bytes = 16 << 20});
};

TEST_F(StackedCheckpoint, LayersBeginAndAreNamedAlikeInBothPrograms) {
  const Slice apart = holder(false), together = holder(true);
  EXPECT_EQ(together.states().size(), 6u) << "three states, and as many moments";
  EXPECT_EQ(tensors_of(together), tensors_of(apart));
}

TEST_F(StackedCheckpoint, FilesHoldLayersUnderTheirOwnNames) {
  const auto folder = save_checkpoint(holder(true), folder_, {.step = 1});
  EXPECT_THAT(names_in(folder),
              ElementsAre("embed", "layers.0.attn.q", "layers.0.norm", "layers.1.attn.q",
                          "layers.1.norm", "layers.2.attn.q", "layers.2.norm"));
  EXPECT_THAT(names_in(folder / "optimizer.safetensors"),
              testing::Contains("adamw.m.params.layers.2.attn.q"));
}

TEST_F(StackedCheckpoint, EitherProgramLoadsWhatTheOtherWrote) {
  for (const bool is_stacked : {false, true}) {
    SCOPED_TRACE(is_stacked);
    const Slice from = holder(is_stacked);
    // More files than states, so that layers of one stack lie in several.
    save_checkpoint(from, folder_ / cat(is_stacked), {.step = 2}, {.file_bytes_max = 20});
    const Slice to = holder(!is_stacked);
    for (const auto& [name, type] : to.states()) to.write_state(name, HostTensor(type));
    EXPECT_EQ(load_checkpoint(to, folder_ / cat(is_stacked)).step, 2);
    EXPECT_EQ(tensors_of(to), tensors_of(from));
  }
}

// Moments were called by their parameters' names below "params" alone.
TEST_F(StackedCheckpoint, ACheckpointWithTheEarlierNamesOfMomentsIsLoaded) {
  const Slice earlier = client_.allocate({});
  earlier.compile(model(false, 0, "adamw.m")).run().wait();
  save_checkpoint(earlier, folder_, {.step = 2});
  const Slice now = holder(true);
  for (const auto& [name, type] : now.states()) now.write_state(name, HostTensor(type));
  EXPECT_EQ(load_checkpoint(now, folder_).step, 2);
  EXPECT_EQ(tensors_of(now).at("adamw.m.params.layers.2.attn.q"),
            tensors_of(earlier).at("adamw.m.layers.2.attn.q"));
  EXPECT_EQ(tensors_of(now).at("params.embed"), tensors_of(earlier).at("params.embed"));
}

TEST_F(StackedCheckpoint, AMissingLayerIsNamed) {
  save_checkpoint(holder(false), folder_, {.step = 1});
  const Slice later = holder(true, 1);
  EXPECT_THAT(error_text_of([&] { load_checkpoint(later, folder_); }),
              HasSubstr("layers.3.attn.q"));
}

TEST_F(StackedCheckpoint, OneForeignLayerLeavesTheOthersAsTheyAre) {
  const Slice slice = holder(true);
  const TensorSpec spec{"h.1.weight", FileDType::kF64, {kRows, kColumns}};
  SafetensorsWriter out(folder_ / "foreign.safetensors", {spec});
  const std::vector<double> values(kRows * kColumns, 0.5);
  out.append(spec.name, std::as_bytes(std::span(values)));
  out.finish();
  auto expected = tensors_of(slice);
  const int loaded =
      load_parameters(slice, folder_ / "foreign.safetensors", [](const std::string& name) {
        return name == "layers.1.attn.q" ? "h.1.weight" : std::string();
      });
  EXPECT_EQ(loaded, 1);
  const HostTensor half = HostTensor::of<float>({8}, std::vector<float>(8, 0.5f));
  expected.at("params.layers.1.attn.q") = half.bytes;
  EXPECT_EQ(tensors_of(slice), expected);
}

TEST_F(StackedCheckpoint, ProgramsOfOneSliceAgreeWhichLayersAStateHolds) {
  const Slice slice = holder(true);
  const std::string message = error_text_of([&] { slice.compile(model(true, 7)); });
  EXPECT_THAT(message, HasSubstr("state \"params.layers.attn.q\" stacks other layers"));
}

}  // namespace
}  // namespace gangway::programs
