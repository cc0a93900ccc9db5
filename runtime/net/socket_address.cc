#include "runtime/net/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include "runtime/base/error.h"

namespace gangway::internal {
namespace {

constexpr char kForms[] =
    "expected unix:/path, unix:@name, host:port, [ipv6]:port or localhost:port, with port 0 for "
    "any free one";

SocketAddress unix_address(const std::string& text, const std::string& path) {
  SocketAddress address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
  GW_REQUIRE(!path.empty() && path.size() < sizeof un.sun_path, "address \"", text,
             "\": the path of a Unix socket has 1 to ", sizeof un.sun_path - 1, " bytes, got ",
             path.size());
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof un;
  if (path.front() != '@') return address;
  un.sun_path[0] = '\0';
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  return address;
}

uint16_t parse_port(const std::string& text, const std::string& digits) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  GW_REQUIRE(error == std::errc() && end == digits.data() + digits.size(), "address \"", text,
             "\": the port is not a number from 0 to 65535: got \"", digits, "\": ", kForms);
  return port;
}

bool fill_numeric(SocketAddress& address, const std::string& host, uint16_t port) {
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  if (inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof v4;
    return true;
  }
  address = {};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof v6;
    return true;
  }
  return false;
}

SocketAddress look_up(const std::string& text, const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw Error(ErrorKind::kUnavailable,
                cat("address \"", text, "\": no host \"", host, "\": ", gai_strerror(error)));
  }
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  return address;
}

}  // namespace

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (family() == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
  }
  return is_unix();
}

bool SocketAddress::is_abstract() const {
  return is_unix() && reinterpret_cast<const sockaddr_un&>(storage).sun_path[0] == '\0';
}

std::string SocketAddress::text() const {
  const char* path = reinterpret_cast<const sockaddr_un&>(storage).sun_path;
  if (is_abstract()) return cat("unix:@", path + 1);
  if (is_unix()) return cat("unix:", path);
  char host[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return cat(host, ":", ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
  return cat("[", host, "]:", ntohs(v6.sin6_port));
}

SocketAddress parse_socket_address(const std::string& text) {
  if (text.starts_with("unix:")) return unix_address(text, text.substr(5));
  const size_t colon = text.rfind(':');
  GW_REQUIRE(colon != std::string::npos && colon > 0, "address \"", text, "\": ", kForms);
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const uint16_t port = parse_port(text, text.substr(colon + 1));
  SocketAddress address;
  return fill_numeric(address, host, port) ? address : look_up(text, host, port);
}

}  // namespace gangway::internal
