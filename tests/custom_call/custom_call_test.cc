// A user's kernel from its shared library to the result, and every error of such a kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "gangway.h"
#include "ir/build/program_builder.h"
#include "runtime/os/temp_dir.h"
#include "tests/interpret/interpret.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// y = kernel(x, x + 1) of x: f32[2, 2].
Program program_with(const UserKernel& kernel, const Mesh& mesh) {
  ProgramBuilder b("with_kernel", mesh);
  Value x = b.input("x", f32({2, 2}));
  b.output("y", custom_call(kernel, {x, x + 1.0}, f32({2, 2})) * 1.0);
  return b.build();
}

class CustomCallTest : public testing::Test {
 protected:
  CustomCallTest() { std::filesystem::copy(tests::user_kernel(), library_); }

  std::vector<float> run(const UserKernel& kernel) {
    Client client = connect("local:1x2", {.in_process = true, .memory_bytes = 16 << 20});
    const Slice slice = client.allocate({.devices = 2});
    const Executable program = slice.compile(program_with(kernel, slice.mesh({{"data", 2}})));
    const HostTensor x = HostTensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
    const HostTensor y = program.run({{"x", x}})["y"].to_host();
    return {y.as<float>().begin(), y.as<float>().end()};
  }
  std::string refusal(const UserKernel& kernel) {
    try {
      run(kernel);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.what();
    }
    return "none";
  }

  TempDir folder_;
  const std::string library_ = folder_.path() / "libkernel.so";
};

TEST_F(CustomCallTest, AKernelOfAUsersLibraryRunsOnEveryDevice) {
  EXPECT_THAT(run(user_kernel(library_, "add_ten_times")), ElementsAre(21, 32, 43, 54));
}

TEST_F(CustomCallTest, AMissingLibraryIsNamedWhenTheProgramIsBuiltAndWhenItIsInstalled) {
  EXPECT_THROW(user_kernel("/nowhere/libkernel.so", "f"), Error);
  const UserKernel kernel = user_kernel(library_, "add_ten_times");
  std::filesystem::remove(library_);
  const std::string error = refusal(kernel);
  EXPECT_THAT(error, HasSubstr("cannot read " + library_ + ": No such file or directory"));
  EXPECT_THAT(error, HasSubstr("custom_call_test.cc:"));
  EXPECT_THAT(error, HasSubstr("every executor must have the file"));
}

TEST_F(CustomCallTest, ALibraryOfAnotherContentIsRefused) {
  const UserKernel kernel = user_kernel(library_, "add_ten_times");
  std::ofstream(library_, std::ios::app) << "more";
  EXPECT_THAT(refusal(kernel), HasSubstr("of another content: expected hash " + kernel.library));
}

TEST_F(CustomCallTest, AMissingSymbolIsNamed) {
  EXPECT_THAT(refusal(user_kernel(library_, "no_such")), HasSubstr("no function \"no_such\""));
}

TEST_F(CustomCallTest, AFileThatIsNoLibraryIsRefused) {
  std::ofstream(library_, std::ios::trunc) << "not a library";
  EXPECT_THAT(refusal(user_kernel(library_, "f")), HasSubstr("it can't be loaded"));
}

TEST_F(CustomCallTest, AKernelThatReturnsAnErrorFailsItsRun) {
  EXPECT_THAT(refusal(user_kernel(library_, "refuse")), HasSubstr("refuse returned 42"));
}

TEST_F(CustomCallTest, AKernelThatComesToNoEndIsNamedWithItsLineAndItsRunEndsByItsTimeLimit) {
  struct Hold {  // It must end before the client, whose devices would never end otherwise.
    explicit Hold(std::string name) : file(std::move(name)) { std::ofstream(file) << "held"; }
    ~Hold() { std::filesystem::remove(file); }
    const std::string file;
  };
  const std::string file = folder_.path() / "hold";
  setenv("HOLD_KERNEL", file.c_str(), 1);
  const Client client = connect("local:1x2", {.in_process = true, .memory_bytes = 16 << 20});
  const Slice slice = client.allocate({.devices = 2});
  const UserKernel kernel = user_kernel(library_, "held");
  const Executable program = slice.compile(program_with(kernel, slice.mesh({{"data", 2}})));
  const HostTensor x = HostTensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
  program.run({{"x", x}}).wait();
  {
    const Hold hold(file);
    const gangway::Run run = program.run({{"x", x}}, {.time_limit_ms = 1500});
    const auto stuck = [&] { return client.status().hosts[0].stuck; };
    ASSERT_TRUE(eventually([&] { return !stuck().empty(); }));
    EXPECT_THAT(stuck()[0], HasSubstr("is stuck in custom_call of f32[2, 2] at custom_call_test"));
    EXPECT_THAT(client.status().metrics, HasSubstr("gangway_device_stuck{"));
    try {
      run.wait();
      ADD_FAILURE() << "it has ended";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.what(), HasSubstr("limit of 1500 ms"));
      EXPECT_THAT(error.what(), HasSubstr("\"host-0\" has not answered"));
      EXPECT_THAT(error.what(), HasSubstr("is stuck in custom_call of f32[2, 2]"));
    }
  }
  const HostTensor y = program.run({{"x", x}})["y"].to_host();
  EXPECT_THAT(y.as<float>(), ElementsAre(1, 1, 1, 1));
  EXPECT_TRUE(eventually([&] { return client.status().hosts[0].stuck.empty(); }));
}

// w = kernel(key), which no run reads before the program is installed.
Program with_initialiser(const UserKernel& kernel, const Mesh& mesh) {
  ProgramBuilder b("with_initialiser", mesh);
  const StateSpec spec{f32({2}), [&](Builder&, Value key, const Type& type) {
                         return custom_call(kernel, {key}, type);
                       }};
  b.output("y", b.state("w", spec) * 1.0);
  return b.build();
}

TEST_F(CustomCallTest, AnInitialiserWhoseKernelFailsRefusesItsProgramAndTheNextOneIsInstalled) {
  Client client = connect("local:1x2", {.in_process = true, .memory_bytes = 16 << 20});
  const Slice slice = client.allocate({.devices = 2});
  const Mesh mesh = slice.mesh({{"data", 2}});
  try {
    slice.compile(with_initialiser(user_kernel(library_, "refuse"), mesh));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("state \"w\": its initialiser failed"));
    EXPECT_THAT(error.what(), HasSubstr("refuse returned 41"));
    EXPECT_THAT(error.what(), HasSubstr("custom_call_test.cc:"));
  }
  const Executable program = slice.compile(with_initialiser(user_kernel(library_, "ones"), mesh));
  const HostTensor y = program.run()["y"].to_host();
  EXPECT_THAT(y.as<float>(), ElementsAre(1, 1));
}

TEST_F(CustomCallTest, ProgramsThatAreRefusedGiveTheMemoryOfTheirStatesBack) {
  Client client = connect("local:1x2", {.in_process = true, .memory_bytes = 16 << 20});
  const Slice slice = client.allocate({.devices = 2});
  const auto program = [&](const char* kernel) {
    ProgramBuilder b("large", slice.mesh({{"data", 2}}));
    const StateSpec spec{f32({5 << 18}), [&](Builder&, Value key, const Type& type) {
                           return custom_call(user_kernel(library_, kernel), {key}, type);
                         }};
    b.output("y", sum(b.state("w", spec), {}));
    return b.build();
  };
  for (int i = 0; i < 4; ++i) {
    try {
      slice.compile(program("refuse"));
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("refuse returned 41"));
    }
  }
  EXPECT_EQ(slice.compile(program("ones")).run()["y"].item<float>(), 5 << 18);
}

TEST_F(CustomCallTest, AStateOfARefusedProgramIsInitialisedByTheNextProgramThatHasIt) {
  Client client = connect("local:1x2", {.in_process = true, .memory_bytes = 16 << 20});
  const Slice slice = client.allocate({.devices = 2});
  const auto init = [&](const char* kernel) {
    return StateSpec{f32({2}), [=, this](Builder&, Value key, const Type& type) {
                       return custom_call(user_kernel(library_, kernel), {key}, type);
                     }};
  };
  const StateSpec twos{f32({2}),
                       [](Builder& b, Value, const Type& type) { return b.constant(type, 2.0); }};
  const auto program = [&](const StateSpec& u, const StateSpec& w) {
    ProgramBuilder b("two_states", slice.mesh({{"data", 2}}));
    Value first = b.state("u", u);
    b.output("y", first + b.state("w", w));
    return b.build();
  };
  EXPECT_THROW(slice.compile(program(init("ones"), init("refuse"))), Error);
  const HostTensor y = slice.compile(program(twos, init("ones"))).run()["y"].to_host();
  EXPECT_THAT(y.as<float>(), ElementsAre(3, 3));
}

TEST_F(CustomCallTest, TheInterpreterSaysThatItHasNoKernel) {
  Builder b("f");
  Value x = b.parameter("x", f32({2, 2}));
  b.result("y", custom_call(user_kernel(library_, "refuse"), {x}, f32({2, 2})));
  try {
    interpret(b.build(), {{f32({2, 2}), {1, 2, 3, 4}}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("custom_call"));
  }
}

}  // namespace
}  // namespace gangway
