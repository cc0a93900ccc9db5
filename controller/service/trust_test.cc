// Tests which users may do what over connections to a controller's address.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/service/service.h"
#include "protocol/rpc_values.h"
#include "protocol/token_file.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/net/sim_network.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

using Joined = capnp::Response<wire::Controller::ConnectResults>;

// The network does not know the user at "peer", as over TCP.
class TrustTest : public testing::Test {
 protected:
  TrustTest() {
    network_.set_user("peer", "");
    reactor_->run([&] {
      service_ = std::make_unique<ControllerService>(
          *reactor_, network_.endpoint("controller"),
          ControllerServiceOptions{.address = "sim:controller",
                                   .tokens = std::make_shared<TokenTable>(file_, own_user_name())});
    });
  }
  ~TrustTest() noexcept override {
    reactor_->run([&] { service_.reset(); });
  }

  AccessToken own() const { return read_token_file(file_); }
  AccessToken add(const std::string& owner) {
    const AccessToken token = AccessToken::random();
    add_owner_token(file_, {owner, hash_of(token)});
    return token;
  }
  static DialOptions showing(const AccessToken& token) {
    return {.token = [token] { return ShownToken{token, "eves.token"}; }};
  }
  Connection connect(const AccessToken& token, const std::string& from = "peer") {
    return Connection::connect(*reactor_, network_.endpoint(from), "sim:controller",
                               showing(token));
  }
  static Joined join(Connection& connection, const std::string& name) {
    auto request = connection.bootstrap<wire::Controller>().connectRequest();
    write(request.initVersion(), Version{});
    write(request.initMachine(), this_machine());
    request.setName(name);
    return await<Joined>(request.send());
  }
  std::unique_ptr<FrameStream> frames(uint64_t key, const AccessToken& token) {
    return connect_frames(*reactor_, network_.endpoint("peer"), "sim:controller", key, {},
                          showing(token));
  }

  const TempDir dir_;
  const std::filesystem::path file_ = dir_.path() / "token";
  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  SimNetwork network_{*reactor_};
  std::unique_ptr<ControllerService> service_;
};

TEST_F(TrustTest, ConnectionsWithoutTheTokenGetOnlyARefusal) {
  reactor_->run([&] {
    Connection ada = connect(own());
    const Joined joined = join(ada, "trainer");
    const uint64_t key = joined.getFrameKey();
    const Error none = error_of([&] { connect({}); });
    EXPECT_EQ(none.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(none.what(), HasSubstr("sim:controller asks for a token: there is none in "
                                       "eves.token"));
    EXPECT_THAT(none.what(), HasSubstr("--token-file"));
    AccessToken close = own();
    close.bytes[31] ^= std::byte{1};
    for (const AccessToken& other : {AccessToken::random(), close}) {
      EXPECT_THAT(error_text_of([&] { connect(other); }),
                  HasSubstr("does not take the token in eves.token"));
      EXPECT_THAT(error_text_of([&] { frames(key, other); }), HasSubstr("does not take the token"));
    }
    EXPECT_THAT(error_text_of([&] { frames(key, {}); }), HasSubstr("asks for a token"));
    EXPECT_NO_THROW(frames(key, own()));
  });
}

TEST_F(TrustTest, BytesBehindARefusedPreambleAreNotRead) {
  reactor_->run([&] {
    for (const unsigned char kind : {0, 1, 7}) {
      Stream stream = network_.endpoint("peer").connect("sim:controller");
      std::vector<unsigned char> bytes(4096, 0x5a);
      const unsigned char hello[] = {'G', 'W', 'A', 'Y', kConnectionVersion, kind, 0, 0};
      std::copy(std::begin(hello), std::end(hello), bytes.begin());
      await(kj::evalNow([&] { return stream->write(bytes.data(), 48); }));
      unsigned char answer[64] = {};
      EXPECT_EQ(await(stream->tryRead(answer, sizeof answer, sizeof answer)), 8u);
      EXPECT_NE(answer[5], 0) << "kind " << int{kind};
    }
    EXPECT_EQ(service_->controller().counts().total(), 0u);
  });
}

TEST_F(TrustTest, ATokenSaysWhoseAProgramIs) {
  reactor_->run([&] {
    const AccessToken bobs = add("bob");
    Connection ada = connect(own()), bob = connect(bobs),
               local = connect({}, "who the network knows");
    const Joined one = join(ada, "a"), two = join(bob, "b"), three = join(local, "c");
    const std::vector<ProgramCounts> programs = service_->controller().program_counts();
    ASSERT_EQ(programs.size(), 3u);
    EXPECT_EQ(programs[0].owner, own_user_name());
    EXPECT_EQ(programs[1].owner, "bob");
    EXPECT_EQ(programs[2].owner, own_user_name());
  });
}

TEST_F(TrustTest, TheKeyOfAStreamIsOfNoUseToAnotherOwner) {
  reactor_->run([&] {
    const AccessToken bobs = add("bob");
    Connection ada = connect(own());
    const Joined joined = join(ada, "trainer");
    EXPECT_THAT(error_text_of([&] { frames(joined.getFrameKey(), bobs); }),
                HasSubstr("has no frame stream for this peer"));
    EXPECT_NO_THROW(frames(joined.getFrameKey(), own()));
  });
}

TEST_F(TrustTest, TheStatusOfAnotherOwnersProgramShowsOnlyItsOwnerAndUse) {
  reactor_->run([&] {
    Connection ada = connect(own()), bob = connect(add("bob"));
    const Joined adas = join(ada, "secret plans"), bobs = join(bob, "mine");
    const auto status = [](Connection& connection) {
      auto request = connection.bootstrap<wire::Controller>().statusRequest();
      write(request.initVersion(), Version{});
      return await<capnp::Response<wire::Controller::StatusResults>>(request.send());
    };
    const auto seen = status(bob), by_operator = status(ada);
    ASSERT_EQ(seen.getPrograms().size(), 2u);
    EXPECT_EQ(seen.getPrograms()[0].getOwner(), own_user_name());
    EXPECT_EQ(seen.getPrograms()[0].getName(), "");
    EXPECT_EQ(seen.getPrograms()[0].getShare().getWeight(), 1);
    EXPECT_EQ(seen.getPrograms()[1].getName(), "mine");
    EXPECT_EQ(seen.getMetrics(), "");
    EXPECT_THAT(seen.toString().flatten().cStr(), testing::Not(HasSubstr("secret")));
    EXPECT_EQ(by_operator.getPrograms()[0].getName(), "secret plans");
    EXPECT_EQ(by_operator.getPrograms()[1].getName(), "mine");
  });
}

TEST_F(TrustTest, ALogOfAnotherOwnerIsRefusedLikeThatOfAnUnknownProgram) {
  reactor_->run([&] {
    Connection ada = connect(own()), bob = connect(add("bob"));
    const Joined adas = join(ada, "secret plans");
    const auto log = [](Connection& connection, const std::string& name, uint64_t program = 0) {
      auto request = connection.bootstrap<wire::Controller>().logsRequest();
      write(request.initVersion(), Version{});
      request.setName(name);
      request.setProgram(program);
      return await<capnp::Response<wire::Controller::LogsResults>>(request.send());
    };
    const auto refused = [&](const std::string& name, uint64_t program = 0) {
      const Error error = error_of([&] { log(bob, name, program); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_EQ(error.message(),
                cat("logs: there is no program \"", name, "\" whose log bob may read"));
    };
    const std::string full = cat(own_user_name(), "/secret plans");
    for (const std::string& name : {std::string("secret plans"), full, std::string("nobody's"),
                                    std::string(), std::string("/")}) {
      refused(name);
      refused(name, adas.getId());
    }
    {
      Connection again = connect(own());
      const Joined bobs = join(bob, "mine");
      EXPECT_EQ(log(bob, "mine").getProgram(), bobs.getId());
      EXPECT_EQ(log(ada, "bob/mine").getLines()[0].getText(), "its client has connected");
      EXPECT_THAT(error_text_of([&] { log(ada, "mine"); }), HasSubstr("no program \"mine\""));
      refused("mine", adas.getId());
    }
    // The log has the same readers once the program has ended.
    auto said = adas.getSession().logRequest();
    said.initLines(1).set(0, "goodbye");
    await<capnp::Response<wire::Session::LogResults>>(said.send());
    await<capnp::Response<wire::Session::CloseResults>>(adas.getSession().closeRequest().send());
    EXPECT_TRUE(log(ada, "secret plans").getEnded());
    refused(full);
    refused("secret plans", adas.getId());
  });
}

TEST_F(TrustTest, TooManyWaitsForALogOverOneConnectionAreRefused) {
  reactor_->run([&] {
    Connection bob = connect(add("bob"));
    const Joined joined = join(bob, "mine");
    using Results = wire::Controller::LogsResults;
    std::vector<kj::Promise<capnp::Response<Results>>> waits;
    wire::Controller::Client controller = bob.bootstrap<wire::Controller>();
    for (int i = 0; i < 17; ++i) {
      auto request = controller.logsRequest();
      write(request.initVersion(), Version{});
      request.setName("mine");
      request.setAfter(1);
      request.setWaitMs(1000);
      waits.push_back(request.send());
    }
    EXPECT_THAT(error_text_of([&] { await(kj::mv(waits.back())); }),
                HasSubstr("logs: too many calls wait over this connection: expected at most 16"));
    waits.pop_back();
    for (auto& wait : waits) EXPECT_EQ(await(kj::mv(wait)).getLines().size(), 0u);
  });
}

TEST_F(TrustTest, OnlyWhoRunsTheControllerAddsExecutors) {
  reactor_->run([&] {
    Connection bob = connect(add("bob"));
    auto request = bob.bootstrap<wire::Controller>().registerExecutorRequest();
    write(request.initVersion(), Version{});
    write(request.initMachine(), this_machine());
    request.initDescription().setName("trap");
    EXPECT_THAT(error_text_of([&] {
                  await<capnp::Response<wire::Controller::RegisterExecutorResults>>(request.send());
                }),
                HasSubstr(cat("executor \"trap\": expected one of ", own_user_name(),
                              ", who runs the controller, got one of bob")));
    EXPECT_EQ(service_->controller().counts().hosts, 0u);
  });
}

TEST_F(TrustTest, OnlyWhoRunsTheControllerDrainsAndForgetsHosts) {
  reactor_->run([&] {
    Connection bob = connect(add("bob")), ada = connect(own());
    const auto drain = [](Connection& connection, bool undo) {
      auto request = connection.bootstrap<wire::Controller>().drainRequest();
      write(request.initVersion(), Version{});
      request.setHost("e");
      request.setUndo(undo);
      await<capnp::Response<wire::Controller::DrainResults>>(request.send());
    };
    const auto forget = [](Connection& connection) {
      auto request = connection.bootstrap<wire::Controller>().forgetRequest();
      write(request.initVersion(), Version{});
      request.setHost("e");
      await<capnp::Response<wire::Controller::ForgetResults>>(request.send());
    };
    const auto refused = [](const std::string& who) {
      return HasSubstr(cat(who, " host \"e\": expected one of ", own_user_name(),
                           ", who runs the controller, got one of bob"));
    };
    EXPECT_THAT(error_text_of([&] { drain(bob, false); }), refused("who drains"));
    EXPECT_THAT(error_text_of([&] { drain(bob, true); }), refused("who undrains"));
    EXPECT_THAT(error_text_of([&] { forget(bob); }), refused("who forgets"));
    // Only ada learns whether there is such a host.
    EXPECT_THAT(error_text_of([&] { drain(ada, false); }), HasSubstr("there is no host \"e\""));
    EXPECT_THAT(error_text_of([&] { forget(ada); }), HasSubstr("there is no host \"e\""));
  });
}

TEST(FrameKeys, KeysOfARealControllerDoNotRepeatWithItsSeed) {
  const auto key_of_a_run = [] {
    auto reactor = Reactor::make_real(1);
    return reactor->run([&] {
      SimNetwork network(*reactor);
      ControllerService service(*reactor, network.endpoint("controller"),
                                {.address = "sim:controller"});
      Connection connection =
          Connection::connect(*reactor, network.endpoint("peer"), "sim:controller");
      auto request = connection.bootstrap<wire::Controller>().connectRequest();
      write(request.initVersion(), Version{});
      write(request.initMachine(), this_machine());
      request.setName("peer");
      return await<Joined>(request.send()).getFrameKey();
    });
  };
  EXPECT_NE(key_of_a_run(), key_of_a_run());
}

}  // namespace
}  // namespace gangway
