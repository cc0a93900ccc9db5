#include "executor/checkpoints/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kOffset = 64;

class CheckpointStoreTest : public testing::Test {
 protected:
  void in_reactor(const std::function<void(CheckpointStore&)>& body) {
    const auto reactor = Reactor::make_real();
    reactor->run([&] {
      CheckpointStore store(*reactor);
      body(store);
    });
  }
  std::string folder() const { return (temp_.path() / "ann" / "train").string(); }
  CheckpointFiles files(uint64_t version, uint64_t known = 1) const {
    return {.folder = folder(),
            .version = version,
            .tensors = {{"a", f32({2, 3}), 0}, {"layers.0.b", i32({4}), kOffset}},
            .keep = 2,
            .known = known,
            .metadata = {{"format", "pt"}}};
  }
  // Fills the segment as a host that has opened it does.
  static void fill(const CheckpointStore::Segment& made, float first) {
    const SharedSegment memory = SharedSegment::open(made.descriptor);
    for (int i = 0; i < 6; ++i) {
      const float value = first + static_cast<float>(i);
      std::memcpy(memory.data() + 4 * i, &value, 4);
    }
    for (int32_t i = 0; i < 4; ++i) std::memcpy(memory.data() + kOffset + 4 * i, &i, 4);
  }
  static float first_in(const CheckpointStore::Segment& made) {
    const SharedSegment memory = SharedSegment::open(made.descriptor);
    float value = 0;
    std::memcpy(&value, memory.data(), 4);
    return value;
  }

  TempDir temp_;
};

TEST_F(CheckpointStoreTest, TensorsOfASegmentAreWrittenToFilesAndReadBack) {
  in_reactor([&](CheckpointStore& store) {
    const auto out = store.make_segment(128);
    for (const uint64_t version : {5, 10, 15}) {
      fill(out, static_cast<float>(version));
      store.write(out.number, files(version));
    }
    EXPECT_THAT(CheckpointDir(folder()).steps(), ElementsAre(10, 15));
    const TensorFiles found = TensorFiles::open(*CheckpointDir(folder()).latest());
    EXPECT_EQ(found.metadata().at("format"), "pt");
    EXPECT_EQ(found.at("layers.0.b").spec->shape, (std::vector<int64_t>{4}));
    const auto in = store.make_segment(128);
    store.read(in.number, files(10));
    EXPECT_EQ(first_in(in), 10);
    store.read(in.number, files(15));
    EXPECT_EQ(first_in(in), 15);
  });
}

TEST_F(CheckpointStoreTest, AFlippedBitOnTheDiskIsAnErrorThatNamesTheFile) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    for (const uint64_t version : {5, 10}) {
      fill(memory, static_cast<float>(version));
      store.write(memory.number, files(version));
    }
    const std::filesystem::path newest = *CheckpointDir(folder()).latest() / kModelFile;
    std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('\x01');
    file.close();
    const Error error = error_of([&] { store.read(memory.number, files(10)); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr(newest.string() + ": the file is damaged: expected"));
    store.read(memory.number, files(5));
    EXPECT_EQ(first_in(memory), 5);
  });
}

TEST_F(CheckpointStoreTest, CheckpointsOfEarlierReleasesHaveNoHashesAndAreRead) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    fill(memory, 7);
    store.write(memory.number, files(5));
    EXPECT_TRUE(std::filesystem::remove(*CheckpointDir(folder()).latest() / kHashesFile));
    const auto in = store.make_segment(128);
    store.read(in.number, files(5));
    EXPECT_EQ(first_in(in), 7);
  });
}

TEST_F(CheckpointStoreTest, AProgramsOwnUnreportedCheckpointIsNotSetAside) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    const auto write = [&](uint64_t version, const std::string& program) {
      CheckpointFiles written = files(version, 0);
      written.metadata[kProgramKey] = program;
      store.write(memory.number, written);
    };
    write(500, "earlier");
    write(20, "mine");
    write(20, "mine");
    EXPECT_THAT(CheckpointDir(folder()).steps(), ElementsAre(20));
    EXPECT_THAT(CheckpointDir(folder() + "~1").steps(), ElementsAre(500));
  });
}

// A user who removes the newest step by hand leaves a link that names nothing.
TEST_F(CheckpointStoreTest, AProgramHasCheckpointsWhereAnEarlierOnesLatestLinkNamesNothing) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    CheckpointFiles earlier = files(500);
    earlier.metadata[kProgramKey] = "earlier";
    store.write(memory.number, earlier);
    earlier.version = 600;
    store.write(memory.number, earlier);
    std::filesystem::remove_all(CheckpointDir(folder()).folder_of(600));
    EXPECT_EQ(error_of([&] { CheckpointDir(folder()).latest(); }).kind(), ErrorKind::kInvalid);
    CheckpointFiles mine = files(5, 0);
    mine.metadata[kProgramKey] = "mine";
    store.write(memory.number, mine);
    EXPECT_THAT(CheckpointDir(folder()).steps(), ElementsAre(5));
    EXPECT_THAT(CheckpointDir(folder() + "~1").steps(), ElementsAre(500));
  });
}

TEST_F(CheckpointStoreTest, TheCheckpointThatAProgramWouldGoBackToIsNotRemoved) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    for (const uint64_t version : {5, 10, 15}) store.write(memory.number, files(version, 5));
    EXPECT_THAT(CheckpointDir(folder()).steps(), ElementsAre(5, 10, 15));
    store.write(memory.number, files(20, 15));
    EXPECT_THAT(CheckpointDir(folder()).steps(), ElementsAre(15, 20));
  });
}

TEST_F(CheckpointStoreTest, AnEarlierProgramsCheckpointsAreSetAside) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    store.write(memory.number, files(500));
    store.write(memory.number, files(5, 0));
    EXPECT_THAT(CheckpointDir(folder()).steps(), ElementsAre(5));
    EXPECT_THAT(CheckpointDir(folder() + "~1").steps(), ElementsAre(500));
  });
}

TEST_F(CheckpointStoreTest, CheckpointsOfAnOwnerTakeNoMoreThanItMay) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    store.write(memory.number, files(500));
    CheckpointFiles more = files(20);
    more.folder = (temp_.path() / "ann" / "another").string();
    more.owner_bytes_max =
        bytes_below(temp_.path() / "ann") + 40;  // It has 40, with its header more.
    store.write(memory.number, more);
    more.version = 30;
    const Error refused = error_of([&] { store.write(memory.number, more); });
    EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(refused.what(),
                AllOf(HasSubstr("the owner's quota"), HasSubstr("gangway checkpoint rm"),
                      HasSubstr("checkpoint_bytes")));
    EXPECT_THAT(CheckpointDir(more.folder).steps(), ElementsAre(20));
    CheckpointFiles of_bob = more;
    of_bob.folder = (temp_.path() / "bob" / "train").string();
    store.write(memory.number, of_bob);
    EXPECT_THAT(CheckpointDir(of_bob.folder).steps(), ElementsAre(30));
  });
}

TEST_F(CheckpointStoreTest, TwoStartsByMistakeLeaveTheCheckpointsOfTheFirstProgram) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    store.write(memory.number, files(500));
    store.write(memory.number, files(5, 0));
    store.write(memory.number, files(3, 0));
    EXPECT_THAT(CheckpointDir(folder()).steps(), ElementsAre(3));
    EXPECT_THAT(CheckpointDir(folder() + "~1").steps(), ElementsAre(500));
    EXPECT_THAT(CheckpointDir(folder() + "~2").steps(), ElementsAre(5));
  });
}

TEST_F(CheckpointStoreTest, RequestsThatDoNotFitAreRefusedAndNothingIsWritten) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(72);
    const auto refused = [&](const std::function<void(CheckpointFiles&)>& change) {
      CheckpointFiles wrong = files(1);
      change(wrong);
      return error_of([&] { store.write(memory.number, wrong); }).message();
    };
    EXPECT_THAT(refused([](auto&) {}), HasSubstr("expected it in a segment of 72 bytes"));
    EXPECT_THAT(refused([](auto& wrong) { wrong.tensors[1].offset = -8; }), HasSubstr("got it at"));
    EXPECT_THAT(refused([](auto& wrong) { wrong.tensors[1].type.dims = {-1}; }),
                HasSubstr("beyond all bounds"));
    EXPECT_THAT(refused([](auto& wrong) { wrong.folder = "relative"; }),
                HasSubstr("expected an absolute path"));
    EXPECT_THAT(refused([](auto& wrong) { wrong.folder += "/../.."; }),
                HasSubstr("expected an absolute path"));
    EXPECT_THAT(refused([](auto& wrong) { wrong.tensors.clear(); }), HasSubstr("expected 1 to"));
    EXPECT_THAT(refused([](auto& wrong) { wrong.tensors[1] = wrong.tensors[0]; }),
                HasSubstr("two tensors are called \"a\""));
    EXPECT_FALSE(std::filesystem::exists(temp_.path() / "ann"));
    EXPECT_THAT(error_of([&] { store.write(77, files(1)); }).message(),
                HasSubstr("there is no segment 77"));
  });
}

TEST_F(CheckpointStoreTest, AReadNamesTensorsThatAreMissingOrOfAnotherType) {
  in_reactor([&](CheckpointStore& store) {
    const auto memory = store.make_segment(128);
    EXPECT_THAT(error_of([&] { store.read(memory.number, files(5)); }).message(),
                HasSubstr("there is no folder"));
    store.write(memory.number, files(5));
    EXPECT_THAT(error_of([&] { store.read(memory.number, files(6)); }).message(),
                HasSubstr("step-00000006"));
    CheckpointFiles other = files(5);
    other.tensors[0].type = f32({3, 2});
    EXPECT_THAT(error_of([&] { store.read(memory.number, other); }).message(),
                HasSubstr("expected f32[3, 2], got F32[2, 3]"));
    other.tensors[0].name = "c";
    EXPECT_THAT(error_of([&] { store.read(memory.number, other); }).message(),
                HasSubstr("there is no tensor c"));
    other.tensors[0].may_be_missing = true;
    EXPECT_THAT(store.read(memory.number, other), ElementsAre("c"));
  });
}

TEST_F(CheckpointStoreTest, SegmentsAreBoundedAndClosed) {
  in_reactor([&](CheckpointStore& store) {
    EXPECT_THAT(error_of([&] { store.make_segment(0); }).message(), HasSubstr("got 0"));
    std::vector<uint64_t> made;
    for (size_t i = 0; i < CheckpointStore::kSegmentsMax; ++i)
      made.push_back(store.make_segment(64).number);
    EXPECT_EQ(error_of([&] { store.make_segment(64); }).kind(), ErrorKind::kOverloaded);
    store.close_segment(made.back());
    store.make_segment(64);
  });
}

}  // namespace
}  // namespace gangway
