// certs init, issue, rotate, revoke, list: an authority in a folder on this machine, and what it
// issues.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/table.h"
#include "common/security/authority.h"

namespace warpsmith::cli {
namespace {

using security::Issued;

constexpr int kMaxDays = 3650, kMaxAuthorityDays = 30 * 365;

struct Flags {
  std::string folder;  // "": that of --dir
  std::string authority = "warpsmith";
  std::string name, role;
  std::vector<std::string> hosts;
  int authority_days = kMaxDays, days = 90;
};

absl::StatusOr<security::Authority> AuthorityOf(const Context& context, const Flags& flags) {
  if (!flags.folder.empty()) return security::Authority(flags.folder);
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  return security::Authority(context.dir + "/certs");
}

absl::Duration Days(int days) { return days * absl::Hours(24); }

std::string Json(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string Date(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

const char* StateOf(const Issued& issued, absl::Time now) {
  if (issued.revoked) return "revoked";
  return issued.not_after < now ? "expired" : "good";
}

nlohmann::json JsonOf(const Issued& issued, absl::Time now) {
  nlohmann::json json = {{"name", issued.name.name},
                         {"role", std::string(security::NameOf(issued.name.role))},
                         {"serial", issued.serial},
                         {"hosts", issued.hosts},
                         {"not_before", Json(issued.not_before)},
                         {"not_after", Json(issued.not_after)},
                         {"state", StateOf(issued, now)}};
  if (!issued.certificate.empty()) json["file"] = issued.certificate;
  return json;
}

absl::StatusOr<int> Init(const Context& context, const Flags& flags) {
  absl::StatusOr<security::Authority> authority = AuthorityOf(context, flags);
  if (!authority.ok()) return authority.status();
  absl::Status made = authority->Init(flags.authority, Days(flags.authority_days), absl::Now());
  if (!made.ok()) return made;
  const std::string certificate = authority->Path("ca.crt"), crl = authority->Path("crl.pem");
  if (context.json) {
    std::cout << nlohmann::json{{"ca", certificate}, {"crl", crl}}.dump(2) << "\n";
  } else {
    std::cout << certificate << "\n";
  }
  std::cerr << "made. Every program is given a copy of it (--tls-ca) and of " << crl
            << " (--tls-crl). Keep a copy of the folder: who has ca.key makes certificates for "
               "everybody\n";
  return kDone;
}

int Print(const Context& context, const Issued& issued, const char* what) {
  if (context.json) {
    std::cout << JsonOf(issued, absl::Now()).dump(2) << "\n";
  } else {
    std::cout << issued.certificate << "\n";
  }
  std::cerr << what << " for " << std::string(security::NameOf(issued.name.role)) << " '"
            << issued.name.name << "', good until " << Date(issued.not_after)
            << ": a certificate and its key, a secret. Copy it to whom it is for, and name it "
               "there with --tls-cert and with --tls-key\n";
  return kDone;
}

absl::StatusOr<int> Issue(const Context& context, const Flags& flags) {
  const absl::StatusOr<security::Role> role = security::ParseRole(flags.role);
  if (!role.ok()) return role.status();
  absl::StatusOr<security::Authority> authority = AuthorityOf(context, flags);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<Issued> issued =
      authority->Issue({{*role, flags.name}, flags.hosts, Days(flags.days)}, absl::Now());
  if (!issued.ok()) return issued.status();
  return Print(context, *issued, "issued");
}

absl::StatusOr<int> Rotate(const Context& context, const Flags& flags) {
  absl::StatusOr<security::Authority> authority = AuthorityOf(context, flags);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<Issued> issued =
      authority->Rotate(flags.name, Days(flags.days), absl::Now(), flags.hosts);
  if (!issued.ok()) return issued.status();
  return Print(context, *issued, "made anew");
}

absl::StatusOr<int> Revoke(const Context& context, const Flags& flags) {
  absl::StatusOr<security::Authority> authority = AuthorityOf(context, flags);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<int> revoked = authority->Revoke(flags.name, absl::Now());
  if (!revoked.ok()) return revoked.status();
  const std::string crl = authority->Path("crl.pem");
  if (context.json) {
    std::cout << nlohmann::json{{"name", flags.name}, {"revoked", *revoked}, {"crl", crl}}.dump(2)
              << "\n";
  }
  if (*revoked == 0) {
    std::cerr << "'" << flags.name << "' was revoked before\n";
  } else {
    std::cerr << Counted(*revoked, "certificate") << " of '" << flags.name
              << "' revoked. That counts where a copy of " << crl
              << " is: give it to every program anew (--tls-crl)\n";
  }
  return kDone;
}

absl::StatusOr<int> List(const Context& context, const Flags& flags) {
  absl::StatusOr<security::Authority> authority = AuthorityOf(context, flags);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<std::vector<Issued>> list = authority->List();
  if (!list.ok()) return list.status();
  const absl::Time now = absl::Now();
  if (context.json) {
    nlohmann::json json = nlohmann::json::array();
    for (const Issued& issued : *list) json.push_back(JsonOf(issued, now));
    std::cout << json.dump(2) << "\n";
    return kDone;
  }
  Table table({{"name"}, {"role"}, {"state"}, {"until"}, {"hosts"}, {"serial"}});
  for (const Issued& issued : *list) {
    table.Add({issued.name.name, std::string(security::NameOf(issued.name.role)),
               StateOf(issued, now), Date(issued.not_after), absl::StrJoin(issued.hosts, " "),
               issued.serial});
  }
  std::cout << table.Text();
  return kDone;
}

}  // namespace

void AddCerts(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("certs",
                                     "Make an authority and the certificates of planners, workers "
                                     "and people");
  sub->require_subcommand(1);
  sub->add_option("--certs", flags->folder,
                  "the authority's folder, `certs` in --dir if not given");
  const auto add = [&](const char* name, const char* what, auto run) {
    CLI::App* command = sub->add_subcommand(name, what);
    command->callback([&context, &chosen, flags, run] {
      chosen = [&context, flags, run] { return run(context, *flags); };
    });
    return command;
  };
  CLI::App* init = add("init", "Make an authority in a new folder", &Init);
  init->add_option("--name", flags->authority, "what it is called, for people")
      ->capture_default_str();
  init->add_option("--days", flags->authority_days, "how long it is good")
      ->check(CLI::Range(1, kMaxAuthorityDays))
      ->capture_default_str();
  CLI::App* issue = add("issue", "Make a certificate for somebody new", &Issue);
  issue->add_option("--role", flags->role, "worker, submitter, operator, reader or planner")
      ->required();
  CLI::App* rotate = add("rotate", "Make a new certificate in the place of one that ends", &Rotate);
  for (CLI::App* command : {issue, rotate}) {
    command->add_option(
        "--host", flags->hosts,
        "of a planner or worker: a host name or address that it is reached by, beside those "
        "that it has and loopback; may be given again");
  }
  CLI::App* revoke = add("revoke", "Have all certificates of a name refused", &Revoke);
  for (CLI::App* command : {issue, rotate, revoke}) {
    command->add_option("NAME", flags->name, "of a machine, a planner or a person")->required();
  }
  for (CLI::App* command : {issue, rotate}) {
    command->add_option("--days", flags->days, "how long it is good")
        ->check(CLI::Range(1, kMaxDays))
        ->capture_default_str();
  }
  add("list", "Every certificate that was issued", &List);
}

}  // namespace warpsmith::cli
