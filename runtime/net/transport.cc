#include "runtime/net/transport.h"

#include <kj/io.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "runtime/base/limit_hint.h"
#include "runtime/base/units.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/port.h"
#include "runtime/net/socket_address.h"
#include "runtime/net/socket_stream.h"
#include "runtime/os/descriptor_limit.h"
#include "runtime/os/user.h"
#include "runtime/tls/tls_stream.h"

namespace gangway {
namespace {

using internal::SocketAddress;

constexpr int kBacklog = 512;
constexpr Duration kRetryFirst = std::chrono::milliseconds(10);
constexpr Duration kRetryMax = std::chrono::milliseconds(500);

kj::AutoCloseFd make_socket(const SocketAddress& address) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    throw Error(ErrorKind::kOverloaded, cat("socket for ", address.text(), ": ", strerror(errno)),
                {}, limit_hint(errno));
  }
  const int on = 1;
  // Control messages are small and waited for: never hold one back to fill a packet.
  if (!address.is_unix()) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return kj::AutoCloseFd(fd);
}

[[noreturn]] void fail_to_listen(const SocketAddress& address, int error) {
  if (error == EADDRINUSE) {
    throw Error(
        ErrorKind::kInvalid, cat("listen: ", address.text(), " is in use by another process"), {},
        address.is_unix() ? "stop that process, or choose another path"
                          : "stop that process, or choose another port (0 takes a free one)");
  }
  throw Error(ErrorKind::kInvalid, cat("listen: ", address.text(), ": ", strerror(error)));
}

const char* path_of(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_un&>(address.storage).sun_path;
}

// connect() fails with the same error for a file of any kind as for a socket without a listener, so
// the kind is checked before anything is removed. Links are not followed, since their targets may
// belong to others.
void require_socket(const SocketAddress& address) {
  struct stat status{};
  if (lstat(path_of(address), &status) != 0 || S_ISSOCK(status.st_mode)) return;
  const char* kind = S_ISLNK(status.st_mode)   ? "a symbolic link"
                     : S_ISDIR(status.st_mode) ? "a folder"
                     : S_ISREG(status.st_mode) ? "a regular file"
                                               : "no socket";
  throw Error(ErrorKind::kInvalid,
              cat("listen: ", address.text(), " is ", kind,
                  " that is already there: expected a path that is free, or a socket that a "
                  "process left behind"),
              {}, "choose another path, or remove the file");
}

// A killed process leaves behind a socket file without a listener.
bool is_stale(const SocketAddress& address) {
  const kj::AutoCloseFd probe = make_socket(address);
  return connect(probe, address.get(), address.size) != 0 && errno == ECONNREFUSED;
}

// Identifies the file of a path, so that only the socket that was bound here is removed at the end.
struct FileIdentity {
  dev_t device = 0;
  ino_t number = 0;
  bool operator==(const FileIdentity&) const = default;
};

FileIdentity file_at(const SocketAddress& address) {
  struct stat status{};
  if (lstat(path_of(address), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

void bind_unix(int fd, const SocketAddress& address) {
  if (bind(fd, address.get(), address.size) != 0) {
    const int error = errno;
    if (error == EADDRINUSE && !address.is_abstract()) require_socket(address);
    if (error != EADDRINUSE || address.is_abstract() || !is_stale(address))
      fail_to_listen(address, error);
    unlink(path_of(address));
    if (bind(fd, address.get(), address.size) != 0) fail_to_listen(address, errno);
  }
  if (address.is_abstract()) return;  // accept_one() checks each peer.
  // Before listen(): nobody can connect until it is private to its user.
  if (chmod(path_of(address), S_IRUSR | S_IWUSR) != 0) fail_to_listen(address, errno);
}

// The peer process as it was when it connected.
ucred process_of(kj::AsyncIoStream& stream) {
  ucred peer{};
  kj::uint size = sizeof peer;
  stream.getsockopt(SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

std::string peer_address(kj::AsyncIoStream& stream) {
  SocketAddress address;
  kj::uint size = sizeof address.storage;
  stream.getpeername(reinterpret_cast<sockaddr*>(&address.storage), &size);
  return address.text();
}

void bind_tcp(int fd, const SocketAddress& address) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, address.get(), address.size) != 0) fail_to_listen(address, errno);
}

Result<Stream> try_connect(Reactor& reactor, const SocketAddress& target, int64_t deadline_ns) {
  kj::AutoCloseFd fd = make_socket(target);
  return result_of([&] {
    kj::Promise<Stream> stream = reactor.port().sockets()->wrapConnectingSocketFd(
        kj::mv(fd), target.get(), target.size,
        kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC |
            kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
    return internal::socket_stream(
        *reactor.port().unix_port(),
        internal::await_connection(reactor, kj::mv(stream), deadline_ns, target.text()));
  });
}

// Prepares new connections of a listener for its handler. Fibers that outlive the
// listener share it.
class Entrance {
 public:
  // `open`: whether the listener is there, whose owner the options call.
  Entrance(Reactor& reactor, std::shared_ptr<Tls> tls, ListenOptions options,
           std::shared_ptr<const bool> open)
      : reactor_(reactor),
        tls_(std::move(tls)),
        options_(std::move(options)),
        open_(std::move(open)) {}

  // Makes the connection encrypted, if it is to be. Returns false if it was refused. Suspends.
  bool let_in(Incoming& in) {
    if (tls_ == nullptr) return true;
    if (handshakes_ >= kHandshakesMax)
      return refuse(in.from, cat("there are ", handshakes_, " TLS handshakes already"));
    // Without the port, which is another one for each connection.
    const std::string machine = in.from.substr(0, in.from.rfind(':'));
    size_t& of_machine = of_machines_[machine];
    if (of_machine >= internal::kHandshakesOfMachineMax)
      return refuse(in.from, cat("its machine is in ", of_machine, " TLS handshakes already"));
    const Result<bool> is_in = result_of([&] {
      ++handshakes_;
      ++of_machine;
      KJ_DEFER({
        --handshakes_;
        if (--of_machine == 0) of_machines_.erase(machine);
      });
      return shake_hands(in);
    });
    if (is_in.ok()) return is_in.value();
    const Error& why = is_in.error();
    if (why.kind() == ErrorKind::kCancelled) throw Error(why);
    // A peer that goes away or takes too long is not reported.
    return why.kind() == ErrorKind::kInvalid ? refuse(in.from, why.message()) : false;
  }

 private:
  static constexpr size_t kHandshakesMax = 256;
  static constexpr Duration kHandshakeTimeLimit = std::chrono::seconds(10);
  static constexpr kj::byte kHandshakeRecord = 22;  // With this byte every TLS connection begins.

  bool shake_hands(Incoming& in) {
    const int64_t deadline_ns = reactor_.clock().now_ns() + kHandshakeTimeLimit.count();
    kj::byte first = 0;
    auto read = kj::evalNow([&] { return in.stream->tryRead(&first, 1, 1); });
    auto& timer = reactor_.port().timer();
    if (await(timer.timeoutAt(internal::to_kj_time(deadline_ns), kj::mv(read))) == 0) return false;
    in.stream = internal::behind_first_byte(first, kj::mv(in.stream));
    in.is_plain = first != kHandshakeRecord;
    if (in.is_plain) return true;
    Tls::Secured secured = tls_->accept(reactor_, kj::mv(in.stream), options_.clients, deadline_ns);
    in.stream = kj::mv(secured.stream);
    in.certificate = std::move(secured.peer);
    return true;
  }

  bool refuse(const std::string& from, const std::string& why) const {
    if (*open_ && options_.on_refused) options_.on_refused(from, why);
    return false;
  }

  Reactor& reactor_;
  const std::shared_ptr<Tls> tls_;
  const ListenOptions options_;
  const std::shared_ptr<const bool> open_;
  size_t handshakes_ = 0;  // Handshakes under way.
  // Handshakes of each machine, by its address. Machines without any are left out.
  std::map<std::string, size_t> of_machines_;
};

class SocketListener final : public Listener {
 public:
  SocketListener(Reactor& reactor, kj::AutoCloseFd fd, SocketAddress address,
                 OnConnection on_connection, const ListenOptions& options, std::shared_ptr<Tls> tls)
      : bound_(address),
        file_(has_file() ? file_at(address) : FileIdentity()),
        address_(address.text()),
        receiver_(reactor.port().sockets()->wrapListenSocketFd(
            kj::mv(fd), kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC |
                            kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK)),
        on_trouble_(options.on_trouble),
        entrance_(std::make_shared<Entrance>(reactor, std::move(tls), options, open_)),
        fibers_(reactor) {
    fibers_.spawn("accept " + address_, [this, &reactor, handler = std::move(on_connection)] {
      while (true) accept_one(reactor, handler);
    });
  }
  ~SocketListener() noexcept override {
    *open_ = false;
    if (has_file() && file_at(bound_) == file_) unlink(path_of(bound_));
  }
  const std::string& address() const override { return address_; }

 private:
  bool has_file() const { return bound_.is_unix() && !bound_.is_abstract(); }

  void accept_one(Reactor& reactor, const OnConnection& handler) {
    const Result<void> accepted = result_of([&] {
      Incoming in{.stream = internal::socket_stream(*reactor.port().unix_port(),
                                                    await(receiver_->accept())),
                  .user = {},
                  .from = {}};
      if (bound_.is_unix()) {
        const ucred peer = process_of(*in.stream);
        if (bound_.is_abstract() && peer.uid != geteuid()) return;
        in.user = peer.uid == geteuid() ? own_user_name() : user_name(peer.uid);
        in.from = cat("process ", peer.pid, " of ", in.user);
      } else {
        const int on = 1;
        in.stream->setsockopt(IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        in.from = peer_address(*in.stream);
      }
      reactor
          .spawn("connection to " + address_,
                 [handler, open = open_, entrance = entrance_, i = kj::mv(in)]() mutable {
                   if (*open && entrance->let_in(i) && *open) handler(kj::mv(i));
                 })
          .detach();
    });
    if (accepted.ok()) {
      is_in_trouble_ = false;
      return;
    }
    const Error& why = accepted.error();
    if (why.kind() == ErrorKind::kCancelled) throw why;
    if (why.kind() == ErrorKind::kOverloaded && !std::exchange(is_in_trouble_, true) && on_trouble_)
      on_trouble_(no_room(why));
    // The process is out of descriptors, or the peer gave up: go on listening, without spinning.
    reactor.clock().sleep_for(kRetryFirst);
  }
  Error no_room(const Error& why) const {
    return {ErrorKind::kOverloaded,
            cat("listen: ", address_, ": no connection can be taken: ", why.message(),
                ": this process may have ", descriptor_limit().soft, " files and connections open"),
            {},
            "close some clients, or start it with a higher limit (ulimit -n)"};
  }

  SocketAddress bound_;
  FileIdentity file_;  // Set for a socket in the file system.
  std::string address_;
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);  // For fibers that have not begun.
  kj::Own<kj::ConnectionReceiver> receiver_;
  const OnTrouble on_trouble_;
  const std::shared_ptr<Entrance> entrance_;
  bool is_in_trouble_ = false;
  FiberGroup fibers_;
};

// A process that peers would refuse does not begin to listen.
void require_hosts_certificate(const std::string& address, const Certificate& own, int64_t now_s) {
  constexpr char kHint[] = "`gangway cert host NAME` makes one";
  if (!is_host(own)) {
    throw Error(ErrorKind::kInvalid,
                cat("listen: ", address, ": expected a host's certificate, got that of ",
                    to_text(own.name)),
                {}, kHint);
  }
  if (own.validity.ends_s < now_s) {
    throw Error(ErrorKind::kInvalid,
                cat("listen: ", address, ": the certificate of ", to_text(own.name), " ",
                    end_warning(own.validity.ends_s, now_s)),
                {}, kHint);
  }
}

[[noreturn]] void fail_without_tls(const char* what, const std::string& address) {
  throw Error(ErrorKind::kInvalid,
              cat(what, ": ", address,
                  " is beyond this machine, and connections are not encrypted: expected a loopback "
                  "address, unix:/path or TLS"),
              {},
              "name the folder of a certificate with --tls (`gangway cert` makes one), or use "
              "127.0.0.1 and an SSH tunnel (ssh -L)");
}

}  // namespace

std::unique_ptr<Listener> SocketNetwork::listen(const std::string& address,
                                                OnConnection on_connection, ListenOptions options) {
  SocketAddress bound = internal::parse_socket_address(address);
  std::shared_ptr<Tls> tls_of_it;
  if (encrypts(address)) {
    tls_of_it = tls();
    require_hosts_certificate(address, tls_of_it->own(),
                              reactor_.clock().wall_ns() / 1'000'000'000);
  } else if (!bound.is_loopback()) {
    fail_without_tls("listen", address);
  }
  kj::AutoCloseFd fd = make_socket(bound);
  bound.is_unix() ? bind_unix(fd, bound) : bind_tcp(fd, bound);
  if (::listen(fd, kBacklog) != 0) fail_to_listen(bound, errno);
  if (!bound.is_unix()) getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.size);
  return std::make_unique<SocketListener>(reactor_, kj::mv(fd), bound, std::move(on_connection),
                                          options, std::move(tls_of_it));
}

bool SocketNetwork::encrypts(const std::string& address) const {
  return !tls_folder_.empty() && !address.starts_with("unix:");
}

// Called only where an address is encrypted.
const std::shared_ptr<Tls>& SocketNetwork::tls() {
  if (tls_ == nullptr) tls_ = std::make_shared<Tls>(tls_folder_, on_unread_);
  return tls_;
}

Stream SocketNetwork::connect(const std::string& address, DialOptions options) {
  const SocketAddress target = internal::parse_socket_address(address);
  if (!encrypts(address) && !target.is_loopback()) fail_without_tls("connect", address);
  // A mistake in the files is no reason to wait for the other side first.
  const std::shared_ptr<Tls> secure = encrypts(address) ? tls() : nullptr;
  const int64_t deadline_ns = reactor_.clock().now_ns() + options.time_limit.count();
  Duration pause = kRetryFirst;
  while (true) {
    Result<Stream> attempt = try_connect(reactor_, target, deadline_ns);
    if (attempt.ok() && secure == nullptr) return attempt.take();
    if (attempt.ok()) return secure->dial(reactor_, attempt.take(), address, deadline_ns).stream;
    if (attempt.error().kind() == ErrorKind::kCancelled) throw attempt.error();
    if (reactor_.clock().now_ns() + pause.count() > deadline_ns) {
      throw Error(
          ErrorKind::kUnavailable,
          cat("connect: nobody answers at ", address, " after ",
              format_duration_ns(options.time_limit.count()), ": ", attempt.error().message()),
          {}, "is the process running, and is the address right?");
    }
    reactor_.clock().sleep_for(pause);
    pause = std::min(2 * pause, kRetryMax);
  }
}

namespace internal {

Stream await_connection(Reactor& reactor, kj::Promise<Stream> promise, int64_t deadline_ns,
                        const std::string& what) {
  kj::Promise<Stream> late =
      reactor.port().timer().atTime(to_kj_time(deadline_ns)).then([what]() -> Stream {
        kj::throwFatalException(to_kj(Error(ErrorKind::kUnavailable, "no answer from " + what)));
      });
  return await(promise.exclusiveJoin(kj::mv(late)));
}

}  // namespace internal
}  // namespace gangway
