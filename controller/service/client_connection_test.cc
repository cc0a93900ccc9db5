#include "controller/service/client_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "controller/service/service.h"
#include "protocol/frames.h"
#include "protocol/program_log.h"
#include "protocol/recovery_options.h"
#include "protocol/rpc_values.h"
#include "protocol/segment_wire.h"
#include "runtime/net/sim_network.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

using Joined = capnp::Response<wire::Controller::ConnectResults>;

// eve breaks a bound, and bob has a program.
class ClientConnectionTest : public testing::Test {
 protected:
  ClientConnectionTest() {
    network_.set_user("eve's", "eve");
    network_.set_user("bob's", "bob");
    start({.log = logs_.module("controller"), .sessions_max = 3, .slices_max = 0});
  }
  ~ClientConnectionTest() noexcept override {
    reactor_->run([&] { service_.reset(); });
  }

  void start(const ControllerOptions& options) {
    reactor_->run([&] {
      service_.reset();
      service_ = std::make_unique<ControllerService>(
          *reactor_, network_.endpoint("controller"),
          ControllerServiceOptions{.address = "sim:controller", .controller = options});
    });
  }

  Connection connect(const std::string& from) {
    return Connection::connect(*reactor_, network_.endpoint(from), "sim:controller");
  }
  static Joined join(Connection& connection, const std::string& name) {
    auto request = connection.bootstrap<wire::Controller>().connectRequest();
    write(request.initVersion(), Version{});
    write(request.initMachine(), this_machine());
    request.setName(name);
    return await<Joined>(request.send());
  }
  static void close(Joined& joined) {
    await<capnp::Response<wire::Session::CloseResults>>(joined.getSession().closeRequest().send());
  }
  std::string logged() const {
    std::stringstream text;
    text << std::ifstream(log_file_).rdbuf();
    return text.str();
  }
  // `breaks`, done by eve, is refused with `why` and ends her connection and her session, but
  // nobody else's.
  void expect_closed(const std::function<void(Connection& eves, Joined& joined)>& breaks,
                     const std::string& why) {
    SCOPED_TRACE(why);
    const size_t logged_before = logged().size();
    reactor_->run([&] {
      Connection bobs = connect("bob's");
      Joined bob = join(bobs, "trainer");
      {
        Connection eves = connect("eve's");
        Joined eve = join(eves, "flood");
        EXPECT_EQ(service_->controller().counts().clients, 2u);
        const Error refused = error_of([&] { breaks(eves, eve); });
        EXPECT_EQ(refused.message(), why);
        eves.disconnected().await();
      }
      EXPECT_EQ(service_->controller().counts().clients, 1u);
      EXPECT_FALSE(bobs.disconnected().ready());
      close(bob);
      Connection again = connect("eve's");
      Joined later = join(again, "better");
      close(later);
      EXPECT_EQ(service_->controller().counts().total(), 0u);
    });
    const std::string line = logged().substr(logged_before);
    EXPECT_THAT(line, HasSubstr("a client's connection is closed  owner=eve from="));
    EXPECT_THAT(line, HasSubstr(why));
  }

  const TempDir dir_;
  const std::string log_file_ = (dir_.path() / "log").string();
  const Logs logs_{{.levels = "warn", .file = log_file_}};
  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  SimNetwork network_{*reactor_};
  std::unique_ptr<ControllerService> service_;
};

TEST_F(ClientConnectionTest, TooManyCallsUnderWayEndTheConnection) {
  expect_closed(
      [](Connection&, Joined& joined) {
        using Results = capnp::Response<wire::Session::AllocateResults>;
        std::vector<kj::Promise<Results>> waiting;
        for (size_t i = 0; i <= kCallsUnderWayMax; ++i) {
          auto request = joined.getSession().allocateRequest();
          request.setDevices(1);
          request.setCall(i + 1);
          request.setReleases(1);  // No release comes.
          waiting.push_back(request.send());
        }
        await(kj::mv(waiting.back()));
      },
      "calls under way over one connection: expected at most 1024, got 1025");
}

TEST_F(ClientConnectionTest, ListsBeyondTheirBoundsEndTheConnection) {
  expect_closed(
      [](Connection&, Joined& joined) {
        auto request = joined.getSession().readStatesRequest();
        request.initParts(kStatePartsMax + 1);
        await<capnp::Response<wire::Session::ReadStatesResults>>(request.send());
      },
      "read states: parts: expected at most 1048576, got 1048577");
  expect_closed(
      [](Connection&, Joined& joined) {
        auto request = joined.getSession().repeatRequest();
        request.initInputs(kInputsOfCallMax + 1);
        await<capnp::Response<wire::Session::RepeatResults>>(request.send());
      },
      "repeat: inputs: expected at most 65536, got 65537");
  expect_closed(
      [](Connection&, Joined& joined) {
        auto request = joined.getSession().compileRequest();
        request.initSlices(kSlicesOfCallMax + 1);
        await<capnp::Response<wire::Session::Compiled>>(request.send());
      },
      "compile: slices: expected at most 65536, got 65537");
  expect_closed(
      [](Connection&, Joined& joined) {
        auto request = joined.getSession().logRequest();
        request.initLines(kLogLinesOfCallMax + 1);
        await<capnp::Response<wire::Session::LogResults>>(request.send());
      },
      "log: lines: expected at most 256, got 257");
  expect_closed(
      [](Connection&, Joined& joined) {
        auto request = joined.getSession().reportRequest();
        request.initNumbers(kReportedMax + 1);
        await<capnp::Response<wire::Session::ReportResults>>(request.send());
      },
      "report: numbers: expected at most 16, got 17");
  const auto keep = [](uint32_t axes, uint32_t texts) {
    return [axes, texts](Connection&, Joined& joined) {
      auto request = joined.getSession().keepCheckpointsRequest();
      request.initElastic(axes);
      request.initMetadata(texts);
      await<capnp::Response<wire::Session::KeepCheckpointsResults>>(request.send());
    };
  };
  expect_closed(keep(kElasticAxesMax + 1, 0),
                "keep checkpoints: elastic axes: expected at most 16, got 17");
  expect_closed(keep(0, kMetadataMax + 1),
                "keep checkpoints: texts of metadata: expected at most 32, got 33");
}

TEST_F(ClientConnectionTest, TooManySessionsEndTheConnection) {
  expect_closed(
      [](Connection& eves, Joined& joined) {
        for (size_t i = 0; i < kJoinsMax; ++i) {
          auto request = eves.bootstrap<wire::Controller>().attachRequest();
          write(request.initVersion(), Version{});
          request.setId(joined.getId());
          request.setKey(joined.getFrameKey());
          await<capnp::Response<wire::Controller::AttachResults>>(request.send());
        }
      },
      "sessions over one connection: expected at most 4096, got 4097");
}

TEST_F(ClientConnectionTest, FramesThatAreNotAClientsToSendEndTheConnectionToo) {
  reactor_->run([&] {
    Connection eves = connect("eve's"), bobs = connect("bob's");
    const Joined eve = join(eves, "flood"), bob = join(bobs, "trainer");
    const auto frames = connect_frames(*reactor_, network_.endpoint("eve's"), "sim:controller",
                                       eve.getFrameKey(), {}, {});
    frames->start([](capnp::MessageReader&) {});
    frames->send(encode(HeartbeatFrame{}));
    eves.disconnected().await();
    EXPECT_EQ(service_->controller().counts().clients, 1u);
    EXPECT_FALSE(bobs.disconnected().ready());
  });
  EXPECT_THAT(logged(), HasSubstr("not its to send"));
}

TEST_F(ClientConnectionTest, RequestsBeyondAnOwnersBoundsAreRefusedAndTheConnectionStays) {
  reactor_->run([&] {
    Connection eves = connect("eve's"), bobs = connect("bob's");
    std::vector<Joined> joined;
    for (const char* name : {"a", "b", "c"}) joined.push_back(join(eves, name));
    const Error fourth = error_of([&] { join(eves, "d"); });
    EXPECT_EQ(fourth.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(fourth.what(), HasSubstr("eve has 3 clients and programs: expected at most 3"));
    Joined bob = join(bobs, "d");
    close(joined.back());
    EXPECT_NO_THROW(join(eves, "d"));
    auto request = bob.getSession().allocateRequest();
    request.setDevices(1);
    const Error slice =
        error_of([&] { await<capnp::Response<wire::Session::AllocateResults>>(request.send()); });
    EXPECT_EQ(slice.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(slice.what(), HasSubstr("this client has 0 slices: expected at most 0"));
  });
}

TEST_F(ClientConnectionTest, ReadsThatFailedAndAreNotReleasedCountAsMemoryOfTheirOwner) {
  ControllerOptions options;
  options.owner_bounds[static_cast<size_t>(OwnerResource::kMemory)] = 64 << 10;
  start(options);
  reactor_->run([&] {
    Connection eves = connect("eve's");
    Joined eve = join(eves, "reader");
    using Results = capnp::Response<wire::Session::ReadStatesResults>;
    const auto read = [&](uint64_t call) {
      auto request = eve.getSession().readStatesRequest();
      request.setStates(77);
      request.setCall(call);
      request.setErrorInAnswer(true);
      auto part = request.initParts(1)[0];
      part.setName(std::string(1000, 'w'));
      EXPECT_TRUE(await<Results>(request.send()).hasError());
    };
    uint64_t calls = 0;
    const Error error = error_of([&] {
      while (calls < 100) read(++calls);
    });
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(error.what(), HasSubstr("the controller's memory"));
    EXPECT_GT(calls, 5u);
    EXPECT_LT(calls, 20u);
  });
}

TEST_F(ClientConnectionTest, AnOwnerAtItsBoundOfCallsCanStillAttachAndClose) {
  ControllerOptions options;
  options.owner_bounds[static_cast<size_t>(OwnerResource::kCalls)] = 4;
  start(options);
  reactor_->run([&] {
    Connection eves = connect("eve's");
    Joined eve = join(eves, "busy");
    using Results = capnp::Response<wire::Session::AllocateResults>;
    std::vector<kj::Promise<Results>> waiting;
    for (uint64_t i = 1; i <= 5; ++i) {
      auto request = eve.getSession().allocateRequest();
      request.setDevices(1);
      request.setCall(i);
      request.setReleases(1);  // No release comes.
      waiting.push_back(request.send());
    }
    const Error fifth = error_of([&] { await(kj::mv(waiting.back())); });
    EXPECT_EQ(fifth.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(fifth.what(), HasSubstr("has 4 calls under way: expected at most 4"));
    Connection again = connect("eve's");
    auto request = again.bootstrap<wire::Controller>().attachRequest();
    write(request.initVersion(), Version{});
    request.setId(eve.getId());
    request.setKey(eve.getFrameKey());
    auto attached = await<capnp::Response<wire::Controller::AttachResults>>(request.send());
    await<capnp::Response<wire::Session::CloseResults>>(
        attached.getSession().closeRequest().send());
    EXPECT_EQ(service_->controller().counts().clients, 0u);
  });
}

}  // namespace
}  // namespace gangway
