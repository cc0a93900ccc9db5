// Addresses of sockets, read from text: "unix:/path", "unix:@name", "127.0.0.1:7040",
// "localhost:0", "[::1]:7040", "host:port".
//
// Threads: any.
// Cost: a host's name is looked up, which blocks; numbers and "localhost" are not.
// Errors: kInvalid for text that is no address, kUnavailable for a name that is not known.
#pragma once

#include <sys/socket.h>

#include <string>

namespace gangway::internal {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  bool is_unix() const { return family() == AF_UNIX; }
  // "unix:@name": no file; gone with its last process.
  bool is_abstract() const;
  bool is_loopback() const;
  // "127.0.0.1:7040": the inverse of parsing.
  std::string text() const;
};

SocketAddress parse_socket_address(const std::string& text);

}  // namespace gangway::internal
