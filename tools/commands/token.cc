// `gangway token`: the tokens with which other owners use a controller of this user.
#include "controller/service/tokens.h"
#include "protocol/token_file.h"
#include "runtime/base/error.h"
#include "tools/commands/command.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

// The token is printed only now: the controller keeps its hash.
int add(const std::string& owner, const std::string& out) {
  const AccessToken token = AccessToken::random();
  if (!out.empty()) create_token_file(out, token);
  add_owner_token(token_file({}), {owner, hash_of(token)});
  if (out.empty()) print_line(to_text(token));
  return 0;
}

int list_owners() {
  for (const OwnerToken& token : owner_tokens(token_file({})))
    print_line(cat(to_string(token.hash).substr(0, 8), "  ", token.owner));
  return 0;
}

int remove_all(const std::string& owner) {
  GW_REQUIRE(remove_owner_tokens(token_file({}), owner) > 0, "tokens: there is none of \"", owner,
             "\"");
  return 0;
}

}  // namespace

void add_token(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("token", "Let other owners use this user's controllers");
  command->require_subcommand(1);
  auto owner = std::make_shared<std::string>();
  auto out = std::make_shared<std::string>();
  auto* adds = command->add_subcommand("add", "Make a token of an owner, and print it this once");
  adds->add_option("owner", *owner, "letters, digits, '-', '_' and '.'")->required();
  adds->add_option("--out", *out, "write it to this file instead, which only this user can read");
  adds->callback([&chosen, owner, out] { chosen = [owner, out] { return add(*owner, *out); }; });
  command->add_subcommand("list", "Show whose tokens there are")->callback([&chosen] {
    chosen = list_owners;
  });
  auto* removes = command->add_subcommand("remove", "From now on refuse all tokens of an owner");
  removes->add_option("owner", *owner)->required();
  removes->callback([&chosen, owner] { chosen = [owner] { return remove_all(*owner); }; });
}

}  // namespace gangway::tool
