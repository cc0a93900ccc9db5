// `gangway cert`: the authority of a cluster, and the certificates of its hosts and owners.
#include <filesystem>

#include "runtime/base/clock_ns.h"
#include "runtime/base/error.h"
#include "runtime/tls/authority_folder.h"
#include "runtime/tls/tls_files.h"
#include "tools/commands/command.h"
#include "tools/io/number.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

namespace fs = std::filesystem;

int64_t today_s() { return clock_ns(CLOCK_REALTIME) / 1'000'000'000; }

struct CertCommand {
  std::string authority;  // Its folder; empty: authority_folder().
  std::string out;        // Empty: NAME.tls.
  CertificateOrder order;
  uint32_t number = 0;
};

int make_authority_here(const CertCommand& command) {
  const fs::path folder = authority_folder(command.authority);
  make_authority_folder(folder, today_s());
  print_line(cat(folder.string(),
                 ": keep authority_key.pem to yourself: who has it is the cluster's "
                 "authority"));
  return 0;
}

int issue_one(const CertCommand& command) {
  const fs::path out =
      command.out.empty() ? fs::path(command.order.name + ".tls") : fs::path(command.out);
  const Certificate issued =
      issue_folder(authority_folder(command.authority), out, command.order, today_s());
  print_line(cat(out.string(), ": ", to_text(issued.name), ", until ",
                 date_text(issued.validity.ends_s), ": for --tls"));
  if (is_host(issued)) {
    print_line(
        "to renew that of a controller, move certificate.pem and key.pem into its old folder, "
        "which has the list of revoked certificates");
  }
  return 0;
}

int revoke_one(const CertCommand& command) {
  const std::string folder = tls_folder({});
  GW_REQUIRE(!folder.empty(), "cert: expected the folder of the controller's certificate, --tls");
  const bool is_new = revoke(folder, command.number);
  print_line(cat("number ", command.number, is_new ? " is revoked" : " was revoked already",
                 " for the controller with the certificate of ",
                 to_text(read_tls_files(folder).own.name),
                 ": connections that it has stay, and it opens no others"));
  return 0;
}

void add_authority(CLI::App& command, CertCommand& options) {
  command.add_option("--authority", options.authority,
                     "the authority's folder; default: ~/.local/state/gangway/authority");
}

void add_issuing(CLI::App& command, CertCommand& options) {
  command.add_option("name", options.order.name, "at most 40 letters, digits, '-', '_' and '.'")
      ->required();
  command
      .add_option("--days", options.order.days, "until it ends; not beyond the authority's own end")
      ->check(whole_number(1, kAuthorityDays))
      ->capture_default_str();
  command.add_option("--out", options.out,
                     "the folder that gets it, without one so far; default: NAME.tls");
  add_authority(command, options);
}

}  // namespace

void add_cert(CLI::App& app, Chosen& chosen) {
  auto* command =
      app.add_subcommand("cert", "Make and revoke the certificates with which a cluster uses TLS");
  command->require_subcommand(1);
  auto* inits = command->add_subcommand("init", "Make a cluster's authority, valid for ten years");
  add_authority(*inits, *add_options(*inits, chosen, make_authority_here));

  auto* hosts = command->add_subcommand(
      "host", "Make the certificate of a host: of its executor, and of a controller on it");
  const auto host = add_options(*hosts, chosen, issue_one);
  host->order.kind = CertifiedKind::kHost;
  add_issuing(*hosts, *host);
  hosts->add_option("--address", host->order.addresses,
                    "a name or IP address at which browsers and Prometheus reach it, besides NAME; "
                    "again for more of them");

  auto* owners = command->add_subcommand(
      "owner",
      "Make the certificate of an owner, whose programs run; who runs the controller, by "
      "the name of its user, is one too");
  const auto owner = add_options(*owners, chosen, issue_one);
  owner->order.kind = CertifiedKind::kOwner;
  add_issuing(*owners, *owner);

  auto* revokes = command->add_subcommand(
      "revoke", "From now on refuse a certificate; --tls names the controller's folder");
  const auto revoked = add_options(*revokes, chosen, revoke_one);
  revokes->add_option("number", revoked->number, "as `gangway cert` printed it")
      ->required()
      ->check(whole_number(1, UINT32_MAX));
}

}  // namespace gangway::tool
