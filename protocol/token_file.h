// The file with a token (runtime/net/access_token.h), and the places where processes look for it.
//
// A controller that listens on a TCP port creates one at its first start, readable by its user
// alone. Local clients and executors of that user look at the same place:
//
//   the file that --token-file or ConnectOptions::token_file names
//   $GANGWAY_TOKEN_FILE
//   $XDG_STATE_HOME/gangway/token, ~/.local/state/gangway/token without XDG_STATE_HOME
//
// All controllers of a user have one token, unless a controller is given another file.
//
// Trust: a process that connects without TLS shows the token, in plain text, to whoever listens at
// the address. Such addresses are therefore loopback ones. Under TLS it is shown
// to HTTP ports alone.
// Threads: any.
// Errors: kInvalid for a file that others may read or write, or that has no token, and for a named
// file that does not exist; as runtime/base/durable_file.h where it can't be created.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "runtime/net/access_token.h"

namespace gangway {

// Returns `said`, or if it is empty the place where processes look by themselves.
std::filesystem::path token_file(const std::string& said);

AccessToken read_token_file(const std::filesystem::path& file);
// Creates the file, and its folder, if the file does not exist.
AccessToken read_or_create_token_file(const std::filesystem::path& file);
// Throws kInvalid if the file exists already.
void create_token_file(const std::filesystem::path& file, const AccessToken& token);

// Returns a function that gives the token to show at `address` once the connection stands: by then
// a controller that started meanwhile has created the file. Null: the address needs no token, since
// it knows its peers.
std::function<ShownToken()> shown_at(const std::string& address, const std::string& said);

}  // namespace gangway
