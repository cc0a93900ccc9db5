#include "runtime/os/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "runtime/os/process_identity.h"
#include "runtime/os/signals.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

using testing::HasSubstr;

ChildOptions shell(const std::string& script) { return {.arguments = {"/bin/sh", "-c", script}}; }

TEST(ChildProcess, TellsHowItEnded) {
  auto reactor = Reactor::make_real();
  ChildProcess child(shell("exit 3"));
  EXPECT_EQ(child.exited(*reactor).await().code, 3);
  EXPECT_EQ(to_string(child.wait()), "exited with status 3");
  ChildProcess sleeper({.arguments = {"sleep", "1000"}});
  EXPECT_FALSE(sleeper.poll().has_value());
  Future<ExitStatus> ended = sleeper.exited(*reactor);
  reactor->run_ready();
  EXPECT_FALSE(ended.ready());
  sleeper.signal(SIGTERM);
  EXPECT_EQ(to_string(ended.await()), "was killed by signal 15 (Terminated)");
}

TEST(ChildProcess, WritesItsOutputToAFileAndSeesTheAddedEnvironment) {
  TempDir dir;
  ChildOptions options = shell("echo $GW_X; echo oops >&2");
  options.environment = {{"GW_X", "seven"}};
  options.output_file = (dir.path() / "out").string();
  EXPECT_TRUE(ChildProcess(options).wait().ok());
  std::stringstream text;
  text << std::ifstream(options.output_file).rdbuf();
  EXPECT_EQ(text.str(), "seven\noops\n");
}

TEST(ChildProcess, AProcessThatCanNotStartSaysWhy) {
  try {
    ChildProcess child({.arguments = {"/no/such/program"}});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "process: can't start /no/such/program: No such file or directory");
  }
}

TEST(ChildProcess, DiesWithItsHandle) {
  pid_t pid;
  {
    ChildProcess child({.arguments = {"sleep", "1000"}});
    pid = child.pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

// A launcher that is killed without a chance to clean up must leave nobody behind.
TEST(ChildProcess, DiesWhenItsParentIsKilled) {
  // Orphans of the launcher come to this process, so that their end can be seen.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    ChildProcess child({.arguments = {"sleep", "1000"}});
    const pid_t pid = child.pid();
    if (write(fds[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    while (true) pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(fds[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  int status = 0;
  EXPECT_EQ(waitpid(grandchild, &status, 0), grandchild);  // Would block for ever if it were alive.
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  close(fds[0]);
  close(fds[1]);
}

TEST(Signals, ArriveInAFiberInsteadOfEndingTheProcess) {
  auto reactor = Reactor::make_real();
  Signals signals(*reactor, {SIGTERM, SIGUSR2});
  Fiber sender = reactor->spawn("sender", [] {
    raise(SIGUSR2);
    raise(SIGTERM);
  });
  EXPECT_EQ(signals.next(), SIGUSR2);
  EXPECT_EQ(signals.next(), SIGTERM);
  sender.join();
}

TEST(ProcessIdentityTest, AProcessHasEndedOnceItIsKilledReapedOrNot) {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  const ProcessIdentity identity = identity_of(child);
  EXPECT_EQ(has_ended(identity), HasEnded::kNo);
  EXPECT_EQ(has_ended(identity_of(getpid())), HasEnded::kNo);
  EXPECT_EQ(has_ended({.pid = getpid(), .started = 1}), HasEnded::kYes)
      << "another one of this number";
  EXPECT_EQ(has_ended({}), HasEnded::kUnknown);
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(has_ended(identity), HasEnded::kYes) << "not reaped";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(has_ended(identity), HasEnded::kYes);
}

}  // namespace
}  // namespace gangway
