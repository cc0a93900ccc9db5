// Texts that sources of plans read are loaded off the reactor's thread, and shared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/host/host.h"
#include "ir/build/ops.h"
#include "runtime/base/hash.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway::host_sources_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr PlanId kPlan{1}, kOther{2};
constexpr int64_t kBytes = 1 << 16;

// y = the tokens of a batch added up.
std::shared_ptr<const Plan> reading(const std::string& path) {
  TestPlan t("reading", 1, 1);
  Builder b("sum", t.mesh());
  b.result("y", sum(convert(b.parameter("x", i32({2, 8})), DType::kF32)));
  const uint32_t function = t.function(b.build());
  const uint32_t x = t.value("x", PlanStorage::kTemporary, i32({2, 8}));
  Attrs attrs;
  attrs.set("kind", std::string("text"));
  attrs.set("path", path);
  t.plan().sources.push_back(
      t.node({.kind = PlanNodeKind::kSource, .name = "x", .results = {x}, .attrs = attrs}));
  t.call("sum", function, {x}, {t.output("y", f32())});
  return t.share();
}

class HostSourcesTest : public FolderTest {
 protected:
  Host& host() { return *hosts_->hosts[0]; }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  std::unique_ptr<TestHosts> hosts_ = std::make_unique<TestHosts>(*reactor_, 1, 1);
};

TEST_F(HostSourcesTest, AHostGoesOnWhileItLoadsALongText) {
  const std::string path = write("text", std::string(kBytes, '\1')).string();
  Future<Installed> installed = host().install(kPlan, reading(path), 0, {1});
  EXPECT_FALSE(installed.ready()) << "its reactor has read the text";
  const Installed got = installed.take();
  EXPECT_THAT(got.texts, ElementsAre(SourceText{path, static_cast<uint64_t>(kBytes),
                                                content_hash(std::string(kBytes, '\1'))}));
}

TEST_F(HostSourcesTest, PlansThatReadOneTextShareItAndTheHostCountsItOnce) {
  const std::string path = write("text", std::string(kBytes, '\1')).string();
  hosts_->install(kPlan, reading(path));
  EXPECT_EQ(host().host_bytes(), kBytes);
  hosts_->install(kOther, reading(write("copy", std::string(kBytes, '\1')).string()), {2});
  EXPECT_EQ(host().host_bytes(), kBytes);
  for (const PlanId plan : {kPlan, kOther}) {
    const RunId run(plan.value);
    hosts_->start(
        {.plan = plan, .run = run, .outputs = {ArrayId(plan.value)}, .source_positions = {3}});
    EXPECT_FALSE(hosts_->wait(run).error);
    EXPECT_EQ(hosts_->item<float>(run, 0), 16.0f);
    EXPECT_EQ(host().host_bytes(), kBytes);
    host().uninstall(plan);
  }
  while (host().host_bytes() > 0) reactor_->run_ready();  // Given back beside the reactor.
}

TEST_F(HostSourcesTest, ATextThatHasGrownIsReadToItsEarlierLength) {
  const std::string path = write("text", std::string(kBytes, '\1') + "more").string();
  const SourceText before{path, static_cast<uint64_t>(kBytes), "of no matter here"};
  const Installed got = host().install(kPlan, reading(path), 0, {1}, {}, {before}).take();
  EXPECT_THAT(got.texts, ElementsAre(SourceText{path, static_cast<uint64_t>(kBytes),
                                                content_hash(std::string(kBytes, '\1'))}));
}

TEST_F(HostSourcesTest, APlanThatIsUninstalledWhileItsTextIsLoadedIsCancelled) {
  const std::string path = write("text", std::string(kBytes, '\1')).string();
  const Future<Installed> installed = host().install(kPlan, reading(path), 0, {1});
  host().uninstall(kPlan);
  EXPECT_EQ(error_of([&] { installed.await(); }).kind(), ErrorKind::kCancelled);
  const Future<Installed> behind = host().install(kOther, reading(path), 0, {1});
  hosts_->hosts.clear();
  EXPECT_EQ(error_of([&] { behind.await(); }).kind(), ErrorKind::kCancelled);
}

TEST_F(HostSourcesTest, ATextThatIsNotThereIsNamedWhenItsPlanIsInstalled) {
  const Error error =
      error_of([&] { host().install(kPlan, reading((folder_ / "none").string()), 0, {1}).take(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("none: no such file or folder"));
}

}  // namespace
}  // namespace gangway::host_sources_test
