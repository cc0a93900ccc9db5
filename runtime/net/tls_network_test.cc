// Connections under TLS over sockets of loopback: who is refused, what both sides are told, and
// what a listener on the wire finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/io.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fibers/await.h"
#include "runtime/net/direct_sender.h"
#include "runtime/net/rpc_test.capnp.h"
#include "runtime/net/server.h"
#include "runtime/tls/tls_files.h"
#include "tests/support/error_of.h"
#include "tests/support/net/bare_dial.h"
#include "tests/support/net/issued_folders.h"

namespace gangway::tls_network_test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EchoServer final : public test::Echo::Server {
  kj::Promise<void> echo(EchoContext context) override {
    context.getResults().setNumber(context.getParams().getNumber());
    context.getResults().setData(context.getParams().getData());
    return kj::READY_NOW;
  }
};

class TlsNetworkTest : public testing::Test {
 protected:
  TlsNetworkTest() {
    folders_.issue("host", {.kind = CertifiedKind::kHost, .name = "node7"});
    folders_.issue("owner", {.name = "ada"});
  }

  std::string folder(const std::string& name) const {
    return name.empty() ? "" : folders_.in(name);
  }
  // A server of echoes; its refusals go to refusals_.
  std::unique_ptr<Server> serve(SocketNetwork& network) {
    return std::make_unique<Server>(
        *reactor_, network, "127.0.0.1:0",
        ServerOptions{.bootstrap =
                          [this](const Peer& peer) {
                            users_.push_back(peer.user);
                            return kj::heap<EchoServer>();
                          },
                      .frames_of = [this](uint64_t, const std::string&) { return stream_.get(); },
                      .on_refused = [this](const std::string&,
                                           const std::string& why) { refusals_.push_back(why); }});
  }
  static uint64_t echo(Connection& connection, uint32_t number) {
    auto request = connection.bootstrap<test::Echo>().echoRequest();
    request.setNumber(number);
    return await<capnp::Response<test::Echo::EchoResults>>(request.send()).getNumber();
  }
  void wait_for_refusal() {
    const int64_t until_ns = reactor_->clock().now_ns() + 5'000'000'000;
    while (refusals_.empty() && reactor_->clock().now_ns() < until_ns)
      reactor_->clock().sleep_for(1ms);
  }
  // Expects that the server takes no client, and reports why.
  void expect_nobody_taken(SocketNetwork& there, const Server& server, const char* why) {
    refusals_.clear();
    EXPECT_EQ(
        error_of([&] { (void)Connection::connect(*reactor_, there, server.address()); }).kind(),
        ErrorKind::kUnavailable);
    wait_for_refusal();
    ASSERT_EQ(refusals_.size(), 1u);
    EXPECT_THAT(refusals_[0], HasSubstr(why));
  }

  const IssuedFolders folders_{40};
  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  std::unique_ptr<FrameStream> stream_;
  std::vector<std::string> refusals_, users_;
};

TEST_F(TlsNetworkTest, BothSidesKnowEachOtherByTheirCertificates) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), there(*reactor_, folder("owner"));
    const auto server = serve(here);
    Connection owner = Connection::connect(*reactor_, there, server->address());
    Connection host = Connection::connect(*reactor_, here, server->address());
    for (Connection* const connection : {&owner, &host}) EXPECT_EQ(echo(*connection, 7), 7u);
    EXPECT_THAT(users_, testing::ElementsAre("ada", "host:node7"));
    EXPECT_TRUE(refusals_.empty());
  });
}

TEST_F(TlsNetworkTest, MessagesOfMegabytesArriveWhole) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), there(*reactor_, folder("owner"));
    const auto server = serve(here);
    Connection connection = Connection::connect(*reactor_, there, server->address());
    kj::Array<kj::byte> data = kj::heapArray<kj::byte>(size_t{3} << 20);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<kj::byte>(i * 31 >> 3);
    auto request = connection.bootstrap<test::Echo>().echoRequest();
    request.setData(data);
    const auto answer = await<capnp::Response<test::Echo::EchoResults>>(request.send());
    EXPECT_TRUE(answer.getData() == data.asPtr());
  });
}

// A client that dials a server, and the one line that each side gets.
struct Row {
  const char* what;
  std::string client, server;  // Their folders; empty: without TLS.
  const char* clients_line;
  const char* servers_line;
};

TEST_F(TlsNetworkTest, APeerThatIsNotTrustedIsRefusedWithOneLineOnBothSides) {
  folders_.make_authority("other_authority");
  folders_.issue("other", {.name = "eve"}, 0, "other_authority");
  folders_.issue("expired", {.name = "ada", .days = 1}, 10);
  folders_.issue("early", {.name = "ada"}, -3);
  folders_.issue("revoked", {.name = "bob"});
  revoke(folder("host"), read_tls_files(folder("revoked")).own.name.number);
  // A host that takes the server's certificate no longer.
  folders_.issue("node9", {.kind = CertifiedKind::kHost, .name = "node9"});
  revoke(folder("node9"), read_tls_files(folder("host")).own.name.number);
  // Somebody who has the cluster's authority, and a certificate of their own one.
  folders_.issue("forged", {.name = "ada"}, 0, "other_authority");
  std::filesystem::copy_file(folder("owner") + "/authority.pem",
                             folder("forged") + "/authority.pem",
                             std::filesystem::copy_options::overwrite_existing);
  const Row rows[] = {
      {"the client has no TLS", "", "host", "takes connections by TLS only",
       "it does not speak TLS"},
      {"the server has no TLS", "owner", "", "the peer hung up in the middle of the handshake",
       "it speaks TLS, and this process was started without --tls"},
      {"another authority", "other", "host",
       "the certificate of host node7 (number 1) is of another authority, \"gangway authority",
       "the peer does not take the certificate of host node7 (number 1): another authority issued "
       "it"},
      {"expired", "expired", "host",
       "the peer does not take the certificate of owner ada (number 3): it has expired",
       "the certificate of owner ada (number 3) has expired on "},
      {"not valid yet", "early", "host",
       "the peer does not take the certificate of owner ada (number 4): it is not valid",
       "the certificate of owner ada (number 4) begins on "},
      {"revoked", "revoked", "host",
       "the peer does not take the certificate of owner bob (number 5): it was revoked",
       "the certificate of owner bob (number 5) was revoked"},
      {"a revoked server", "node9", "host", "the certificate of host node7 (number 1) was revoked",
       "the peer does not take the certificate of host node7 (number 1): it was revoked"},
      {"another authority's owner", "forged", "host",
       "the peer does not take the certificate of owner ada (number 2): another authority issued "
       "it",
       "the certificate of owner ada (number 2) is of another authority, \"gangway authority"},
  };
  reactor_->run([&] {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      refusals_.clear();
      SocketNetwork here(*reactor_, folder(row.server)), there(*reactor_, folder(row.client));
      const auto server = serve(here);
      const Error error = error_of([&] {
        (void)Connection::connect(*reactor_, there, server->address(), {.time_limit = 5s});
      });
      EXPECT_THAT(error.message(), AllOf(HasSubstr(row.clients_line), Not(HasSubstr("\n"))));
      EXPECT_THAT(error.message(), HasSubstr("connect: " + server->address()));
      wait_for_refusal();
      ASSERT_EQ(refusals_.size(), 1u);
      EXPECT_THAT(refusals_[0], AllOf(HasSubstr(row.servers_line), Not(HasSubstr("\n"))));
      EXPECT_TRUE(users_.empty());
    }
  });
}

TEST_F(TlsNetworkTest, AClientRefusesAServerThatIsNoHostOrHasExpired) {
  folders_.issue("expired", {.kind = CertifiedKind::kHost, .name = "node8", .days = 1}, 10);
  reactor_->run([&] {
    const std::pair<const char*, const char*> rows[] = {
        {"owner", "the certificate of owner ada (number 2): expected a host's"},
        {"expired", "the certificate of host node8 (number 3) has expired on"}};
    for (const auto& [server, line] : rows) {
      SCOPED_TRACE(server);
      Tls impostor(folder(server));
      SocketNetwork plain(*reactor_), there(*reactor_, folder("host"));
      Promise<void> is_over;
      const auto listener = plain.listen("127.0.0.1:0", [&](Incoming in) {
        const Result<void> taken = result_of([&] {
          (void)impostor.accept(*reactor_, kj::mv(in.stream), Tls::Clients::kCertified,
                                reactor_->clock().now_ns() + 5'000'000'000);
        });
        EXPECT_FALSE(taken.ok());
        is_over.set();
      });
      const Error error =
          error_of([&] { (void)there.connect(listener->address(), {.time_limit = 5s}); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_THAT(error.message(), HasSubstr(line));
      is_over.future().await();
    }
  });
}

TEST_F(TlsNetworkTest, AClientWithoutACertificateIsRefused) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), plain(*reactor_);
    const auto server = serve(here);
    // Under TLS 1.3 the client's handshake may end before the server's.
    static_cast<void>(result_of([&] {
      Stream stream = dial_without_certificate(folder("owner"), plain.connect(server->address()));
      kj::byte byte = 0;
      EXPECT_EQ(await(stream->tryRead(&byte, 1, 1)), 0u);
    }));
    wait_for_refusal();
    EXPECT_THAT(refusals_, testing::ElementsAre("tls: the peer shows no certificate"));
    EXPECT_TRUE(users_.empty());
  });
}

TEST_F(TlsNetworkTest, OnlyAHostWithAValidCertificateListens) {
  folders_.issue("expired", {.kind = CertifiedKind::kHost, .name = "node8", .days = 1}, 10);
  const auto refused = [&](const char* name) {
    SocketNetwork network(*reactor_, folder(name));
    return error_text_of([&] { (void)network.listen("127.0.0.1:0", [](Incoming) {}); });
  };
  EXPECT_THAT(refused("owner"),
              HasSubstr("expected a host's certificate, got that of owner ada (number 2)"));
  EXPECT_THAT(refused("expired"),
              HasSubstr("the certificate of host node8 (number 3) has expired on"));
  EXPECT_THAT(refused("nothing"), HasSubstr("authority.pem: there is none"));
}

TEST_F(TlsNetworkTest, AFolderThatCannotBeReadIsReportedBeforeTheDial) {
  reactor_->run([&] {
    SocketNetwork plain(*reactor_), there(*reactor_, folder("nothing"));
    const std::string nobody =
        plain.listen("127.0.0.1:0", [](Incoming) { ADD_FAILURE(); })->address();
    EXPECT_THAT(error_text_of([&] { (void)there.connect(nobody, {.time_limit = 100ms}); }),
                HasSubstr("authority.pem: there is none"));
  });
}

TEST_F(TlsNetworkTest, ATokenThatIsShownWithoutTlsIsNotLookedUp) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), plain(*reactor_);
    const Server server(*reactor_, here, "127.0.0.1:0",
                        {.bootstrap = [](const Peer&) { return kj::heap<EchoServer>(); },
                         .user_of = [](const AccessToken&) -> std::optional<std::string> {
                           ADD_FAILURE() << "a token is looked up";
                           return std::nullopt;
                         }});
    const DialOptions options{.token = [] { return ShownToken{AccessToken::random(), "a test"}; }};
    EXPECT_THAT(error_text_of([&] {
                  (void)Connection::connect(*reactor_, plain, server.address(), options);
                }),
                HasSubstr("takes connections by TLS only"));
  });
}

TEST_F(TlsNetworkTest, PeersThatDoNotSpeakTlsTakeNoRoomOfThoseThatDo) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), there(*reactor_, folder("owner"));
    SocketNetwork plain(*reactor_);
    const auto server = serve(here);
    std::vector<Stream> silent;
    for (size_t i = 0; i < kHalfOpenMax; ++i) {
      silent.push_back(plain.connect(server->address()));
      await(kj::evalNow([&] { return silent.back()->write("x", 1); }));
    }
    EXPECT_NO_THROW(Connection::connect(*reactor_, there, server->address()));
    wait_for_refusal();
    ASSERT_FALSE(refusals_.empty());
    EXPECT_EQ(refusals_[0], "16 connections have not said yet who they are: expected at most 16");
    kj::byte byte = 0;
    EXPECT_EQ(await(silent.back()->tryRead(&byte, 1, 1)), 0u) << "it is closed at once";
    EXPECT_EQ(await(silent.front()->tryRead(&byte, 1, 1)), 0u) << "it is closed after 2 s";
  });
}

TEST_F(TlsNetworkTest, ASilentMachineKeepsNoOtherOut) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host"));
    SocketNetwork plain(*reactor_);
    const auto server = serve(here);
    std::vector<Stream> silent;
    for (size_t i = 0; i <= internal::kHandshakesOfMachineMax; ++i)
      silent.push_back(plain.connect(server->address()));
    wait_for_refusal();
    ASSERT_EQ(refusals_.size(), 1u);
    EXPECT_EQ(refusals_[0], "its machine is in 64 TLS handshakes already");
    // Another machine to the server: 127.0.0.2.
    const std::string& address = server->address();
    const kj::AutoCloseFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in other{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + 1)}};
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&other), sizeof other), 0);
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    other.sin_port =
        htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&other), sizeof other), 0);
    refusals_.clear();
    ASSERT_EQ(write(fd, "nonsense, which is not TLS", 26), 26);
    wait_for_refusal();
    EXPECT_THAT(refusals_, testing::ElementsAre("it is not a Gangway process"));
  });
}

TEST_F(TlsNetworkTest, ACertificateThatIsRevokedMeanwhileOpensNoFurtherConnection) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), there(*reactor_, folder("owner"));
    const auto server = serve(here);
    Connection before = Connection::connect(*reactor_, there, server->address());
    revoke(folder("host"), read_tls_files(folder("owner")).own.name.number);
    EXPECT_THAT(
        error_text_of([&] { (void)Connection::connect(*reactor_, there, server->address()); }),
        HasSubstr("it was revoked"));
    EXPECT_EQ(echo(before, 7), 7u) << "connections that are open stay";
  });
}

TEST_F(TlsNetworkTest, ARenewedCertificateIsShownFromTheNextConnectionOn) {
  folders_.issue("new", {.kind = CertifiedKind::kHost, .name = "node7"});
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), there(*reactor_, folder("owner"));
    const auto server = serve(here);
    (void)Connection::connect(*reactor_, there, server->address());
    for (const char* file : {"/certificate.pem", "/key.pem"})
      std::filesystem::rename(folder("new") + file, folder("host") + file);
    (void)Connection::connect(*reactor_, there, server->address());
    EXPECT_EQ(here.certificate()->name.number, 3u);
  });
}

TEST_F(TlsNetworkTest, ARenewalThatCannotBeReadIsReportedOnceAndChangesNothing) {
  reactor_->run([&] {
    std::vector<std::string> unread;
    SocketNetwork here(*reactor_, folder("host"),
                       [&](const Error& why) { unread.push_back(why.message()); });
    SocketNetwork there(*reactor_, folder("owner"));
    const auto server = serve(here);
    std::ofstream(folder("host") + "/certificate.pem") << "x";
    for (int i = 0; i < 2; ++i) (void)Connection::connect(*reactor_, there, server->address());
    EXPECT_THAT(unread, testing::ElementsAre(HasSubstr("certificate.pem: certificate: expected")));
  });
}

TEST_F(TlsNetworkTest, ARenewalWhoseKeyOthersCouldReadCountsFromItsChmodOn) {
  folders_.issue("new", {.kind = CertifiedKind::kHost, .name = "node7"});
  reactor_->run([&] {
    std::vector<std::string> unread;
    SocketNetwork here(*reactor_, folder("host"),
                       [&](const Error& why) { unread.push_back(why.message()); });
    SocketNetwork there(*reactor_, folder("owner"));
    const auto server = serve(here);
    namespace fs = std::filesystem;
    const fs::path key = folder("new") + "/key.pem";
    fs::permissions(key, fs::perms::group_read | fs::perms::others_read, fs::perm_options::add);
    for (const char* file : {"/certificate.pem", "/key.pem"})
      fs::rename(folder("new") + file, folder("host") + file);
    (void)Connection::connect(*reactor_, there, server->address());
    EXPECT_THAT(unread, testing::ElementsAre(HasSubstr("key.pem: others may read or write it")));
    fs::permissions(folder("host") + "/key.pem", fs::perms::owner_read | fs::perms::owner_write);
    (void)Connection::connect(*reactor_, there, server->address());
    EXPECT_EQ(here.certificate()->name.number, 3u);
    EXPECT_EQ(unread.size(), 1u);
  });
}

TEST_F(TlsNetworkTest, AListOfRevokedNumbersThatCannotBeReadRefusesEverybody) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), there(*reactor_, folder("owner"));
    const auto server = serve(here);
    std::ofstream(folder("host") + "/revoked") << "two\n";
    expect_nobody_taken(there, *server, "line 1: expected the number of a certificate");
  });
}

TEST_F(TlsNetworkTest, AControllersFolderThatIsGoneOrHasNoListRefusesEverybody) {
  reactor_->run([&] {
    SocketNetwork here(*reactor_, folder("host")), there(*reactor_, folder("owner"));
    const auto server = serve(here);
    const auto expect_no_list = [&] {
      expect_nobody_taken(there, *server, "there is no list of revoked certificates");
    };
    std::filesystem::rename(folder("host"), folder("elsewhere"));
    expect_no_list();
    expect_no_list();  // The first refusal has not made the missing list a known one.
    std::filesystem::copy(folder("owner"), folder("host"));  // An owner's folder needs no list.
    expect_no_list();
    std::filesystem::remove_all(folder("host"));
    std::filesystem::rename(folder("elsewhere"), folder("host"));
    (void)Connection::connect(*reactor_, there, server->address());
    std::filesystem::remove(folder("host") + "/revoked");
    expect_no_list();
    EXPECT_THAT(error_text_of([&] {
                  SocketNetwork again(*reactor_, folder("host"));
                  (void)again.listen("127.0.0.1:0", [](Incoming) {});
                }),
                HasSubstr("there is no list of revoked certificates"));
  });
}

Frame note_of(const std::string& text) {
  capnp::MallocMessageBuilder message;
  message.initRoot<test::Note>().setText(text);
  return make_frame(message);
}

// Stands between a client and a server, and keeps what either sends.
class Recorder {
 public:
  Recorder(Reactor& reactor, std::string target)
      : network_(reactor), target_(std::move(target)), fibers_(reactor) {
    listener_ = network_.listen("127.0.0.1:0", [this](Incoming in) {
      auto ends = std::make_shared<Ends>();
      ends->client = kj::mv(in.stream);
      fibers_.spawn("dial", [this, ends] {
        ends->server = network_.connect(target_);
        fibers_.spawn("up", [this, ends] { copy(*ends->client, *ends->server); });
        fibers_.spawn("down", [this, ends] { copy(*ends->server, *ends->client); });
      });
    });
  }
  ~Recorder() {
    listener_.reset();
    fibers_.cancel();
  }

  const std::string& address() const { return listener_->address(); }
  const std::string& bytes() const { return bytes_; }

 private:
  struct Ends {
    Stream client, server;
  };
  void copy(kj::AsyncIoStream& from, kj::AsyncIoStream& to) {
    std::vector<char> buffer(4096);
    while (const size_t n = await(from.tryRead(buffer.data(), 1, buffer.size()))) {
      bytes_.append(buffer.data(), n);
      await(to.write(buffer.data(), n));
    }
    static_cast<void>(result_of([&] { to.shutdownWrite(); }));
  }

  SocketNetwork network_;
  const std::string target_;
  std::string bytes_;
  FiberGroup fibers_;
  std::unique_ptr<Listener> listener_;
};

class RecordedTest : public TlsNetworkTest, public testing::WithParamInterface<bool> {
 protected:
  // Sends a frame and a call that hold `secret`, and a token; returns the bytes on the wire.
  std::string recorded(const std::string& secret, const AccessToken& token) {
    std::string bytes;
    reactor_->run([&] {
      SocketNetwork here(*reactor_, folder(GetParam() ? "host" : "")),
          there(*reactor_, folder(GetParam() ? "owner" : ""));
      const auto server = serve(here);
      Recorder recorder(*reactor_, server->address());
      const DialOptions options{.token = [&] { return ShownToken{token, "a test"}; }};
      Connection connection = Connection::connect(*reactor_, there, recorder.address(), options);
      auto request = connection.bootstrap<test::Echo>().echoRequest();
      request.setData(kj::StringPtr(secret.c_str()).asBytes());
      await<capnp::Response<test::Echo::EchoResults>>(request.send());
      stream_ = std::make_unique<FrameStream>(*reactor_, FrameOptions{.name = "client"});
      Promise<void> arrived;
      stream_->start([&](capnp::MessageReader& message) {
        EXPECT_EQ(message.getRoot<test::Note>().getText(), secret.c_str());
        arrived.set();
      });
      const auto frames = connect_frames(*reactor_, there, recorder.address(), 1, {}, options);
      frames->start([](capnp::MessageReader&) {});
      const auto direct = std::make_shared<DirectSender>(reactor_->mailbox());
      frames->lend_to(direct);
      frames->send(note_of(secret));
      arrived.future().await();
      // Nobody but the stream may write to a socket under TLS. Without it others soon may.
      const int64_t until_ns =
          reactor_->clock().now_ns() + (GetParam() ? 50'000'000 : 5'000'000'000);
      while (!direct->is_lent() && reactor_->clock().now_ns() < until_ns)
        reactor_->clock().sleep_for(1ms);
      EXPECT_EQ(direct->is_lent(), !GetParam());
      bytes = recorder.bytes();
      stream_.reset();
    });
    return bytes;
  }
};

TEST_P(RecordedTest, TheWireShowsNeitherTokensNorDataUnderTls) {
  std::string secret;
  for (int i = 0; i < 500; ++i) secret += cat("tensor ", i, ";");
  const AccessToken token = AccessToken::random();
  const std::string shown(reinterpret_cast<const char*>(token.bytes.data()), token.bytes.size());
  const std::string bytes = recorded(secret, token);
  EXPECT_GT(bytes.size(), 2 * secret.size());
  const bool is_plain = !GetParam();
  EXPECT_EQ(bytes.find(shown) != bytes.npos, is_plain);
  EXPECT_EQ(bytes.find(secret.substr(0, 16)) != bytes.npos, is_plain);
}

INSTANTIATE_TEST_SUITE_P(Wire, RecordedTest, testing::Bool(),
                         [](const auto& of) { return of.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace gangway::tls_network_test
