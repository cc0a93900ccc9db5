// A checkpoint holds every state, whatever its name, and errors name tensors without a place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_dir.h"
#include "gangway.h"
#include "programs/train/checkpoint.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

const std::vector<std::string> kNames = {"w", "model.w", "params", "params.w", "adamw.m.params.w"};

class EveryState : public FolderTest {
 protected:
  // A slice with these states. The n-th state begins as n, from 1 on.
  Slice slice_with(const std::vector<std::string>& names) const {
    const Slice slice = client_.allocate({});
    ProgramBuilder b("holder", Mesh{});
    double value = 0;
    for (const std::string& name : names)
      b.output(name, sum(b.state(name, filled(f32({4}), ++value))));
    executables_.push_back(slice.compile(b.build()));
    return slice;
  }

  Client client_ = connect("local:1x1", {.in_process = true, .memory_bytes = 16 << 20});
  mutable std::vector<Executable> executables_;
};

TEST_F(EveryState, EveryStateIsSavedAndRestored) {
  const Slice from = slice_with(kNames), to = slice_with(kNames);
  save_checkpoint(from, folder_, {.step = 3});
  for (const std::string& name : kNames) to.write_state(name, HostTensor(f32({4})));
  EXPECT_EQ(load_checkpoint(to, folder_).step, 3);
  for (size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_THAT(to.read_state(kNames[i]).as<float>(), Each(static_cast<float>(i + 1))) << kNames[i];
  }
}

TEST_F(EveryState, TensorsOfTheFilesThatNoStateTakesAreNamed) {
  save_checkpoint(slice_with(kNames), folder_, {.step = 3});
  const Slice fewer = slice_with({"params.w"});
  fewer.write_state("params.w", HostTensor(f32({4})));
  const Error error = error_of([&] { load_checkpoint(fewer, folder_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("has tensors that no state of the slice takes: "
                                            "adamw.m.params.w, model.w, params, w"),
                                  HasSubstr("LoadOptions::states")));
  EXPECT_THAT(fewer.read_state("params.w").as<float>(), Each(0.0f)) << "nothing is written then";
  load_checkpoint(fewer, folder_, {.states = {"params.*"}});
  EXPECT_THAT(fewer.read_state("params.w").as<float>(), Each(4.0f));
}

TEST_F(EveryState, OnlyTheStatesThatAreAskedForAreSaved) {
  save_checkpoint(slice_with(kNames), folder_, {.step = 3}, {.states = {"w|model.*"}});
  const Slice all = slice_with(kNames), few = slice_with({"model.w", "w"});
  EXPECT_THAT(error_text_of([&] { load_checkpoint(all, folder_); }), HasSubstr("adamw.m.params.w"));
  load_checkpoint(few, folder_);
  EXPECT_THAT(few.read_state("w").as<float>(), Each(1.0f));
  EXPECT_THAT(few.read_state("model.w").as<float>(), Each(2.0f));
  EXPECT_THAT(error_text_of([&] { save_checkpoint(few, folder_, {.step = 4}, {.states = {"v"}}); }),
              HasSubstr("no state matches \"v\"; there are: model.w, w"));
}

TEST_F(EveryState, ASliceWithoutStatesIsNeitherSavedNorRestoredAndSaysSo) {
  save_checkpoint(slice_with(kNames), folder_, {.step = 3});
  const Slice none = client_.allocate({});
  for (const bool saves : {true, false}) {
    EXPECT_THAT(error_text_of([&] {
                  saves ? static_cast<void>(save_checkpoint(none, folder_, {.step = 4}))
                        : static_cast<void>(load_checkpoint(none, folder_));
                }),
                HasSubstr("the slice has no states"));
  }
  EXPECT_EQ(CheckpointDir(folder_).steps(), std::vector<int64_t>{3});
}

}  // namespace
}  // namespace gangway::programs
