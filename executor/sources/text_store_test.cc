#include "executor/sources/text_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <vector>

#include "runtime/os/temp_dir.h"
#include "runtime/os/trusted_files.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

// A text whose loads wait until the test lets them read.
struct LateText {
  std::latch has_begun{1}, may_read{1};
  std::atomic<int> loads = 0;  // Number of those that have begun.

  void wait() {
    if (++loads == 1) has_begun.count_down();
    may_read.wait();
  }
};

class TextStoreTest : public testing::Test {
 protected:
  static constexpr int64_t kBudget = 100'000;

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  Future<TextPtr> load(const std::string& path,
                       std::shared_ptr<const TrustedFiles> readable = nullptr) {
    return store_->load({path, std::move(readable), dropped_});
  }
  Future<TextPtr> load_of(const std::string& owner, const std::string& path) {
    TextRequest request{path, nullptr, dropped_};
    request.owner = owner;
    return store_->load(std::move(request));
  }
  std::string refusal_of(const std::string& path,
                         const std::shared_ptr<const TrustedFiles>& readable = nullptr) {
    return error_of([&] { load(path, readable).await(); }).message();
  }

  // The text at `path` is a late one. It outlives its loads.
  void hold_up(const std::string& path, LateText& late) {
    store_.emplace(*reactor_, "texts", budget_, [&late, path](const std::string& other) {
      if (other == path) late.wait();
    });
  }

  const TempDir folder_;
  const std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  const std::shared_ptr<std::atomic<bool>> dropped_ = std::make_shared<std::atomic<bool>>(false);
  HostBudget budget_{kBudget};
  std::optional<TextStore> store_{std::in_place, *reactor_, "texts", budget_};
};

TEST_F(TextStoreTest, AReactorGoesOnWhileATextIsLoaded) {
  const Future<TextPtr> loaded = load(write("text", std::string(4000, 'x')));
  EXPECT_FALSE(loaded.ready());
  EXPECT_EQ(loaded.await()->bytes, std::string(4000, 'x'));
}

TEST_F(TextStoreTest, ReadersOfTheSameBytesShareOneTextThatIsCountedOnce) {
  write("books/a", "first ");
  write("books/b", "second");
  TextPtr first = load(write("text", "first second")).take();
  EXPECT_EQ(budget_.in_use(), 12);
  TextPtr again = load((folder_.path() / "text").string()).take();
  TextPtr folder = load((folder_.path() / "books").string()).take();
  EXPECT_EQ(again, first);
  EXPECT_EQ(folder, first);
  EXPECT_EQ(budget_.in_use(), 12);
  TextPtr other = load(write("other", "first SECOND")).take();
  EXPECT_NE(other, first);
  EXPECT_EQ(budget_.in_use(), 24);
  first = again = folder = nullptr;
  EXPECT_EQ(budget_.in_use(), 12);
  other = nullptr;
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(TextStoreTest, ASharedTextCountsAgainstTheHalfOfEachOwnerWhoeverLoadedIt) {
  const std::string shared = write("shared", std::string(40'000, 'x'));
  const std::string anns = write("anns", std::string(20'000, 'a'));
  TextPtr of_ann = load_of("ann", shared).take();
  TextPtr of_bob = load_of("bob", shared).take();
  EXPECT_EQ(of_ann, of_bob);
  EXPECT_EQ(budget_.in_use(), 40'000);
  // It counts once for all plans of an owner.
  const TextPtr again = load_of("bob", shared).take();
  const auto refusal = [&](const std::string& owner) {
    return error_of([&] { load_of(owner, anns).await(); }).message();
  };
  EXPECT_THAT(refusal("bob"), HasSubstr("owner \"bob\" has "));
  EXPECT_THAT(refusal("ann"), HasSubstr("owner \"ann\" has "));
  // Her last program ends, his goes on.
  of_ann = nullptr;
  EXPECT_EQ(load_of("ann", anns).take()->bytes.size(), 20'000u);
  EXPECT_THAT(refusal("bob"), HasSubstr("owner \"bob\" has "));
}

TEST_F(TextStoreTest, OwnersWhoLoadTheSameTextAtOnceShareIt) {
  const std::string path = write("text", std::string(4000, 'x'));
  Future<TextPtr> first = load_of("ann", path), second = load_of("bob", path);
  const TextPtr of_ann = first.take();
  const TextPtr of_bob = second.take();
  EXPECT_EQ(of_ann, of_bob);
  EXPECT_EQ(budget_.in_use(), 4000);
}

// Ann's half of the budget has room for the text once.
TEST_F(TextStoreTest, PlansOfOneOwnerThatWantATextAtOnceLoadItOneAfterAnotherAndShareIt) {
  const std::string path = write("text", std::string(40'000, 'x'));
  LateText late;
  hold_up(path, late);
  Future<TextPtr> first = load_of("ann", path), second = load_of("ann", path);
  late.has_begun.wait();
  const Result<TextPtr> bobs = result_of([&] { return load_of("bob", write("bobs", "b")).take(); });
  EXPECT_EQ(late.loads, 1) << "there is a thread for the second one";
  late.may_read.count_down();
  const TextPtr of_first = first.take();
  EXPECT_EQ(second.take(), of_first);
  EXPECT_EQ(late.loads, 2);
  EXPECT_TRUE(bobs.ok());
  EXPECT_EQ(budget_.in_use(), 40'001);
  EXPECT_EQ(load_of("ann", write("more", std::string(10'000, 'y'))).take()->bytes.size(), 10'000u);
}

// Ann wants it more often than there are threads.
TEST_F(TextStoreTest, AnOwnerWhoseTextDoesNotComeHoldsUpNoOtherOwner) {
  const std::string path = write("text", "comes late");
  LateText late;
  hold_up(path, late);
  std::vector<Future<TextPtr>> anns;
  for (int i = 0; i < 8; ++i) anns.push_back(load_of("ann", path));
  late.has_begun.wait();
  const Result<TextPtr> bobs = result_of([&] { return load_of("bob", write("bobs", "b")).take(); });
  for (const Future<TextPtr>& one : anns) EXPECT_FALSE(one.ready());
  late.may_read.count_down();
  EXPECT_TRUE(bobs.ok());
  for (Future<TextPtr>& one : anns) EXPECT_EQ(one.take()->bytes, "comes late");
}

TEST_F(TextStoreTest, ATextThatHasChangedIsLoadedAnew) {
  const TextPtr first = load(write("text", "before")).take();
  const TextPtr second = load(write("text", "behind")).take();
  EXPECT_EQ(second->bytes, "behind");
  EXPECT_NE(second->hash, first->hash);
}

TEST_F(TextStoreTest, ATextThatTheHostHasNoMemoryForIsRefusedWithHowMuchIsFree) {
  const TextPtr there = load(write("text", std::string(60'000, 'x'))).take();
  const std::string path = write("large", std::string(60'001, 'y'));
  EXPECT_THAT(refusal_of(path), HasSubstr(cat("text \"", path,
                                              "\": does not fit into the host's "
                                              "memory for suspended programs and texts")));
  EXPECT_EQ(budget_.in_use(), 60'000);
}

TEST_F(TextStoreTest, ATextIsCountedForTheOwnerOfThePlanThatReadsIt) {
  const auto load_for = [&](const std::string& owner, const std::string& path) {
    return store_->load({.path = path, .readable = nullptr, .dropped = dropped_, .owner = owner});
  };
  const TextPtr anns = load_for("ann", write("ann's", std::string(30'000, 'x'))).take();
  const std::string more = write("more", std::string(20'001, 'y'));
  const Error error = error_of([&] { load_for("ann", more).await(); });
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.message(), HasSubstr("owner \"ann\" has "));
  EXPECT_EQ(load_for("bob", more).take()->bytes.size(), 20'001u);
}

TEST_F(TextStoreTest, ATextThatNobodyWaitsForAnyMoreIsNotLoaded) {
  const std::string path = write("text", "abc");
  dropped_->store(true);
  EXPECT_THAT(refusal_of(path), HasSubstr("nobody waits for it"));
  dropped_->store(false);
  const Future<TextPtr> late = load(path);
  store_->stop();
  reactor_->run_ready();
  EXPECT_TRUE(late.ready());
  store_.reset();
  EXPECT_EQ(budget_.in_use(), late.result().ok() ? 3 : 0);
}

TEST_F(TextStoreTest, TextsAreFreedWithTheLastHolderAlsoWhenTheStoreHasStopped) {
  const std::string early = write("early", "abc"), late = write("late", "abcdef");
  std::optional<HeldTexts> held, last;
  {
    HeldTexts first(*store_);
    first.by_path[early] = load(early).take();
    held.emplace(std::move(first));
  }
  EXPECT_EQ(held->by_path.at(early)->bytes, "abc") << "it was moved on";
  last.emplace(*store_);
  last->by_path[late] = load(late).take();
  EXPECT_EQ(budget_.in_use(), 9);
  held.reset();
  store_->stop();
  EXPECT_EQ(budget_.in_use(), 6);
  last.reset();
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(TextStoreTest, OtherOwnersReadTextsOnlyBelowTrustedFolders) {
  const std::filesystem::path outside = write("text", std::string(4000, 'x'));
  const std::filesystem::path trusted = folder_.path() / "trusted";
  write("trusted/text", std::string(4000, 'x'));
  std::filesystem::create_symlink(outside, trusted / "out");
  std::filesystem::create_symlink(trusted / "text", folder_.path() / "in");
  const auto readable =
      std::make_shared<const TrustedFiles>(std::vector<std::filesystem::path>{trusted});
  EXPECT_EQ(load((trusted / "text").string(), readable).await()->bytes.size(), 4000u);
  EXPECT_EQ(load((folder_.path() / "in").string(), readable).await()->bytes.size(), 4000u);
  // The error does not reveal whether there is such a file.
  for (const auto& path : {outside, trusted / "out", trusted / "../text", trusted / "missing",
                           folder_.path() / "missing"}) {
    EXPECT_EQ(refusal_of(path.string(), readable),
              cat("source \"text\": \"", path.string(),
                  "\" is not below a folder that this executor trusts: ", trusted.string()));
  }
}

}  // namespace
}  // namespace gangway
