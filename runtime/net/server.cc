#include "runtime/net/server.h"

#include <capnp/rpc-twoparty.h>

#include <cstring>

#include "runtime/fibers/await.h"
#include "runtime/fibers/port.h"
#include "runtime/net/message_stream.h"

namespace gangway {
namespace {

enum class Kind : uint8_t { kRpc = 0, kFrames = 1 };
enum class Status : uint8_t {
  kFine = 0,
  kOtherVersion = 1,
  kRefused = 2,
  kNoStream = 3,
  kNoToken = 4,
  kOtherToken = 5,
  kNoRoom = 6,
  kNoTls = 7
};

const char* reason(Status status) {
  switch (status) {
    case Status::kFine: return "";
    case Status::kOtherVersion: return "it speaks another wire version";
    case Status::kRefused: return "it asks for what is not served here";
    case Status::kNoStream: return "it has no frame stream here";
    case Status::kNoToken: return "it shows no token";
    case Status::kOtherToken: return "nobody has the token that it shows";
    case Status::kNoRoom: return "its user has as many connections as it may have";
    case Status::kNoTls: return "it does not speak TLS";
  }
  return "";
}

constexpr char kPreambleMagic[4] = {'G', 'W', 'A', 'Y'};
constexpr Duration kPreambleTimeLimit = std::chrono::seconds(10);
constexpr Duration kPlainTimeLimit = std::chrono::seconds(2);  // See kPlainMax.

struct Hello {
  char magic[4] = {kPreambleMagic[0], kPreambleMagic[1], kPreambleMagic[2], kPreambleMagic[3]};
  uint8_t version = kConnectionVersion;
  uint8_t kind = 0;
  uint16_t zero = 0;
  uint64_t key = 0;
};
static_assert(sizeof(Hello) == 16);

struct HelloWithToken {
  Hello hello;
  AccessToken token;
};
static_assert(sizeof(HelloWithToken) == 48);

struct Answer {
  char magic[4] = {kPreambleMagic[0], kPreambleMagic[1], kPreambleMagic[2], kPreambleMagic[3]};
  uint8_t version = kConnectionVersion;
  uint8_t status = 0;
  uint16_t zero = 0;
};
static_assert(sizeof(Answer) == 8);

template <class Message>
bool has_magic(const Message& message) {
  return std::memcmp(message.magic, kPreambleMagic, sizeof kPreambleMagic) == 0;
}

// Why a peer is refused whose first bytes are not a Gangway process's.
const char* what_speaks(const Hello& hello) {
  constexpr char kTlsHandshake[] = {0x16, 0x03};
  return std::memcmp(hello.magic, kTlsHandshake, sizeof kTlsHandshake) == 0
             ? "it speaks TLS, and this process was started without --tls"
             : "it is not a Gangway process";
}

capnp::ReaderOptions reader_options() {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = kRpcWordsMax;
  return options;
}

// Reads a whole message. Throws when the peer closes the stream or takes too long.
template <class Message>
Message read_fixed(Reactor& reactor, kj::AsyncIoStream& stream, int64_t deadline_ns) {
  Message message;
  auto read = kj::evalNow([&] { return stream.read(&message, sizeof message); });
  await(reactor.port().timer().timeoutAt(internal::to_kj_time(deadline_ns), kj::mv(read)));
  return message;
}

template <class Message>
void write_fixed(kj::AsyncIoStream& stream, const Message& message) {
  // A socket may refuse at once, with an exception.
  await(kj::evalNow([&] { return stream.write(&message, sizeof message); }));
}

[[noreturn]] void fail_for_token(const std::string& address, const ShownToken& shown) {
  const std::string where =
      shown.where.empty() ? "none was shown" : "there is none in " + shown.where;
  const std::string what =
      shown.token.is_none()
          ? cat("connect: ", address, " asks for a token: ", where)
          : cat("connect: ", address, " does not take the token in ", shown.where);
  throw Error(ErrorKind::kInvalid, what, {},
              "ask who runs the controller for the token file, or for one that `gangway token add` "
              "writes, and name it with --token-file or GANGWAY_TOKEN_FILE");
}

// Throws the error that an answer other than "fine" stands for.
void require_fine(const Answer& answer, const std::string& address, const ShownToken& shown) {
  GW_REQUIRE(has_magic(answer), "connect: ", address, " is not a Gangway process");
  switch (Status{answer.status}) {
    case Status::kFine: return;
    case Status::kOtherVersion:
      throw Error(ErrorKind::kInvalid,
                  cat("connect: ", address, " speaks another wire version: expected ",
                      int{kConnectionVersion}, ", got ", int{answer.version},
                      ": install the same Gangway on both sides"));
    case Status::kNoStream:
      throw Error(
          ErrorKind::kInvalid,
          cat("connect: ", address,
              " has no frame stream for this peer: it has ended it, or never expected one"));
    case Status::kNoToken:
    case Status::kOtherToken: fail_for_token(address, shown);
    case Status::kNoRoom:
      throw Error(
          ErrorKind::kOverloaded,
          cat("connect: ", address, " has as many connections of this user as one user may have"),
          {}, "close some clients first");
    case Status::kNoTls:
      throw Error(ErrorKind::kInvalid, cat("connect: ", address, " takes connections by TLS only"),
                  {},
                  "ask who runs the cluster for a certificate, and name its folder with --tls or "
                  "GANGWAY_TLS");
    case Status::kRefused: break;
  }
  throw Error(ErrorKind::kInvalid, cat("connect: ", address, " refused the connection"));
}

Stream open_stream(Reactor& reactor, Network& network, const std::string& address, Kind kind,
                   uint64_t key, const DialOptions& options) {
  Stream stream = network.connect(address, options);
  const bool shows_token = options.token && !network.encrypts(address);
  const ShownToken shown = shows_token ? options.token() : ShownToken{};
  Answer answer;
  try {
    write_fixed(*stream, HelloWithToken{.hello = {.kind = static_cast<uint8_t>(kind), .key = key},
                                        .token = shown.token});
    answer =
        read_fixed<Answer>(reactor, *stream, reactor.clock().now_ns() + options.time_limit.count());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    // A peer that does not take this process's certificate says so only after the handshake.
    if (error.kind() == ErrorKind::kInvalid) {
      throw Error(ErrorKind::kInvalid, cat("connect: ", address, ": ", error.message()), {},
                  error.hint());
    }
    throw Error(
        ErrorKind::kUnavailable,
        cat("connect: ", address, " accepted, then went silent: ", error.message()), {},
        "is it a Gangway process? One that has no file descriptors left says so in its log");
  }
  require_fine(answer, address, shown);
  return stream;
}

FrameStream* stream_of(const ServerOptions& options, uint64_t key, const std::string& user) {
  if (options.frames_of == nullptr) return nullptr;
  FrameStream* frames = options.frames_of(key, user);
  return frames == nullptr || frames->has_ended() ? nullptr : frames;
}

Status judge(const ServerOptions& options, const Hello& hello, const std::string& user) {
  switch (Kind{hello.kind}) {
    case Kind::kRpc:
      if (options.bootstrap == nullptr) return Status::kRefused;
      return options.has_room_for && !options.has_room_for(user) ? Status::kNoRoom : Status::kFine;
    case Kind::kFrames:
      return stream_of(options, hello.key, user) == nullptr ? Status::kNoStream : Status::kFine;
  }
  return Status::kRefused;
}

std::optional<std::string> user_shown(const ServerOptions& options, const Incoming& in,
                                      const AccessToken& token) {
  if (in.certificate) return user_of(in.certificate->name);
  if (!in.user.empty() || !options.user_of) return in.user;
  return token.is_none() ? std::nullopt : options.user_of(token);
}

// Decides about a peer, and sets its user.
Status admit(const ServerOptions& options, Incoming& in, const Hello& hello,
             const AccessToken& token) {
  // A token that came in plain text to an address of TLS is not even looked up.
  if (in.is_plain) return Status::kNoTls;
  const std::optional<std::string> user = user_shown(options, in, token);
  if (!user) return token.is_none() ? Status::kNoToken : Status::kOtherToken;
  in.user = *user;
  return judge(options, hello, in.user);
}

}  // namespace

Server::Server(Reactor& reactor, Network& network, const std::string& address,
               ServerOptions options)
    : reactor_(reactor), options_(std::move(options)), fibers_(reactor) {
  const auto serve_it = [this](Incoming in) {
    // The fiber is in the group, so that it ends with the server.
    fibers_.spawn("serve", [this, i = kj::mv(in)]() mutable { serve(kj::mv(i)); });
  };
  listener_ = network.listen(
      address, serve_it, {.on_trouble = options_.on_trouble, .on_refused = options_.on_refused});
}

Server::~Server() {
  listener_.reset();
  fibers_.cancel();
}

void Server::serve(Incoming in) {
  size_t& half_open_now = in.is_plain ? plain_ : half_open_;
  const size_t half_open_max = in.is_plain ? kPlainMax : kHalfOpenMax;
  if (half_open_now >= half_open_max) {
    return refused(in.from, cat(half_open_now,
                                " connections have not said yet who they are: expected "
                                "at most ",
                                half_open_max));
  }
  kj::AsyncIoStream& stream = *in.stream;
  try {
    std::optional<HalfOpen> half_open(half_open_now);
    const Duration time_limit = in.is_plain ? kPlainTimeLimit : kPreambleTimeLimit;
    const int64_t deadline_ns = reactor_.clock().now_ns() + time_limit.count();
    const Hello hello = read_fixed<Hello>(reactor_, stream, deadline_ns);
    if (!has_magic(hello)) return refused(in.from, what_speaks(hello));
    Status status = Status::kOtherVersion;
    if (hello.version == kConnectionVersion) {
      const auto token = read_fixed<AccessToken>(reactor_, stream, deadline_ns);
      status = admit(options_, in, hello, token);
    }
    write_fixed(stream, Answer{.status = static_cast<uint8_t>(status)});
    half_open.reset();
    if (status != Status::kFine) return refused(in.from, reason(status));
    if (Kind{hello.kind} == Kind::kRpc) return serve_rpc(kj::mv(in));
    // The stream may have ended meanwhile.
    FrameStream* const frames = stream_of(options_, hello.key, in.user);
    if (frames != nullptr) frames->attach(kj::mv(in.stream));
  } catch (const Error& error) {
    // A peer that goes away while it connects is not reported as an error.
    if (error.kind() == ErrorKind::kOverloaded) return refused(in.from, error.message());
    if (error.kind() != ErrorKind::kUnavailable) throw;
  }
}

void Server::refused(const std::string& from, const std::string& why) const {
  if (options_.on_refused) options_.on_refused(from, why);
}

void Server::serve_rpc(Incoming in) {
  Promise<void> disconnected;
  auto hung_up = kj::newPromiseAndFulfiller<void>();
  const Peer peer{.connection = ++last_connection_,
                  .user = in.user,
                  .from = in.from,
                  .certificate = in.certificate,
                  .disconnected = disconnected.future(),
                  .hang_up = [hang_up = std::make_shared<kj::Own<kj::PromiseFulfiller<void>>>(
                                  kj::mv(hung_up.fulfiller))] { (*hang_up)->fulfill(); }};
  internal::MessageStream messages(*in.stream,
                                   options_.budget_of ? options_.budget_of(peer) : nullptr);
  capnp::TwoPartyVatNetwork network(messages, capnp::rpc::twoparty::Side::SERVER, reader_options());
  auto rpc = capnp::makeRpcServer(network, options_.bootstrap(peer));
  rpc.setFlowLimit(kRpcWordsMax);
  ++open_;
  struct Close {
    size_t& open;
    Promise<void>& disconnected;
    ~Close() {
      --open;
      disconnected.set();
    }
  } close{open_, disconnected};
  auto answered = hung_up.promise.then([] { return kj::evalLast([] {}); });
  await(network.onDisconnect().exclusiveJoin(kj::mv(answered)));
}

struct Connection::State {
  State(Reactor& reactor, Stream s)
      : stream(kj::mv(s)),
        messages(*stream),
        network(messages, capnp::rpc::twoparty::Side::CLIENT, reader_options()),
        rpc(capnp::makeRpcClient(network)),
        fibers(reactor) {
    fibers.spawn("watch connection", [this] {
      await(network.onDisconnect());
      if (!disconnected.is_set()) disconnected.set();
    });
  }
  ~State() {
    fibers.cancel();
    if (!disconnected.is_set()) disconnected.set();
  }

  Stream stream;
  internal::MessageStream messages;
  capnp::TwoPartyVatNetwork network;
  capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc;
  Promise<void> disconnected;
  FiberGroup fibers;
};

Connection::Connection(std::unique_ptr<State> state) : state_(std::move(state)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

Connection Connection::connect(Reactor& reactor, Network& network, const std::string& address,
                               DialOptions options) {
  return Connection(std::make_unique<State>(
      reactor, open_stream(reactor, network, address, Kind::kRpc, 0, options)));
}

capnp::Capability::Client Connection::bootstrap_any() {
  capnp::MallocMessageBuilder message;
  auto id = message.initRoot<capnp::rpc::twoparty::VatId>();
  id.setSide(capnp::rpc::twoparty::Side::SERVER);
  return state_->rpc.bootstrap(id);
}

Future<void> Connection::disconnected() const { return state_->disconnected.future(); }

std::unique_ptr<FrameStream> connect_frames(Reactor& reactor, Network& network,
                                            const std::string& address, uint64_t key,
                                            FrameOptions frames, DialOptions options) {
  const auto dial = [&reactor, &network, address, key, token = options.token](Duration time_limit) {
    return open_stream(reactor, network, address, Kind::kFrames, key,
                       {.time_limit = time_limit, .token = token});
  };
  return std::make_unique<FrameStream>(reactor, dial(options.time_limit), dial, std::move(frames));
}

}  // namespace gangway
