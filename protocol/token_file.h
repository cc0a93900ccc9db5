// The file with a token (runtime/net/access_token.h), and where processes find it by themselves.
//
// A controller that listens on a TCP port creates one at its first start, readable by its user
// alone. Local clients and executors of that user look at the same place:
//
//   what --token-file or ConnectOptions::token_file says
//   $GANGWAY_TOKEN_FILE
//   $XDG_STATE_HOME/gangway/token, ~/.local/state/gangway/token without XDG_STATE_HOME
//
// All controllers of a user have one token, unless told of another file.
//
// Trust: whoever listens at an address is shown the token, in plain text, as for any service
// without TLS. So addresses are loopback ones, or the ends of tunnels.
// Threads: any.
// Errors: kInvalid for a file that others may read or write, or that has no token, and for one that
// was said and is not there.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "runtime/net/access_token.h"

namespace gangway {

// `said`, or without one where processes look by themselves.
std::filesystem::path token_file(const std::string& said);

AccessToken read_token_file(const std::filesystem::path& file);
// Creates the file, and its folder, when it is not there.
AccessToken read_or_create_token_file(const std::filesystem::path& file);
// Throws kInvalid when the file is there already.
void create_token_file(const std::filesystem::path& file, const AccessToken& token);

// What a peer shows at `address` when its connection stands: a controller that started meanwhile
// has created the file by then. Null: nothing, since the address knows its peers.
std::function<ShownToken()> shown_at(const std::string& address, const std::string& said);

}  // namespace gangway
