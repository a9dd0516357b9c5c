// tokens issue, revoke, list: the file of tokens that a planner takes (--tokens).
#include "common/security/tokens.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/table.h"

namespace warpsmith::cli {
namespace {

using security::Token;

constexpr int kMaxDays = 3650;

struct Flags {
  std::string file;  // "": that of --dir
  std::string name, role;
  int days = 90;
  bool forever = false;
};

absl::StatusOr<std::string> FileOf(const Context& context, const Flags& flags) {
  if (!flags.file.empty()) return flags.file;
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  return context.dir + "/tokens";
}

// Of people: "-" for never.
std::string Date(absl::Time time) {
  if (time == absl::InfiniteFuture()) return "-";
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

nlohmann::json Json(absl::Time time) {
  if (time == absl::InfiniteFuture()) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

const char* StateOf(const Token& token, absl::Time now) {
  if (token.revoked != absl::InfiniteFuture()) return "revoked";
  return token.expires <= now ? "expired" : "good";
}

absl::StatusOr<int> Issue(const Context& context, const Flags& flags) {
  const absl::StatusOr<security::Role> role = security::ParseRole(flags.role);
  if (!role.ok()) return role.status();
  const absl::StatusOr<std::string> file = FileOf(context, flags);
  if (!file.ok()) return file.status();
  const absl::Duration life =
      flags.forever ? absl::InfiniteDuration() : flags.days * absl::Hours(24);
  const absl::Time now = absl::Now();
  const absl::StatusOr<std::string> token =
      security::Tokens(*file).Issue({*role, flags.name}, life, now);
  if (!token.ok()) return token.status();
  if (context.json) {
    std::cout << nlohmann::json{{"token", *token},
                                {"name", flags.name},
                                {"role", flags.role},
                                {"expires", Json(now + life)}}
                     .dump(2)
              << "\n";
  } else {
    std::cout << *token << "\n";
  }
  std::cerr << "a token for " << flags.role << " '" << flags.name << "', good "
            << (flags.forever ? "until it is revoked" : "until " + Date(now + life))
            << ". It is shown this once: put it into a file of mode 600, to be named with "
               "--token-file. Planners that were started with --tokens "
            << *file << " take it within a second\n";
  return kDone;
}

absl::StatusOr<int> Revoke(const Context& context, const Flags& flags) {
  const absl::StatusOr<std::string> file = FileOf(context, flags);
  if (!file.ok()) return file.status();
  const absl::StatusOr<int> revoked = security::Tokens(*file).Revoke(flags.name, absl::Now());
  if (!revoked.ok()) return revoked.status();
  if (context.json) {
    std::cout << nlohmann::json{{"name", flags.name}, {"revoked", *revoked}}.dump(2) << "\n";
  }
  if (*revoked == 0) {
    std::cerr << "every token of '" << flags.name << "' was revoked before\n";
  } else {
    std::cerr << Counted(*revoked, "token") << " of '" << flags.name << "' revoked\n";
  }
  return kDone;
}

absl::StatusOr<int> List(const Context& context, const Flags& flags) {
  const absl::StatusOr<std::string> file = FileOf(context, flags);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::vector<Token>> list = security::Tokens(*file).List();
  if (!list.ok()) return list.status();
  const absl::Time now = absl::Now();
  if (context.json) {
    nlohmann::json json = nlohmann::json::array();
    for (const Token& token : *list) {
      json.push_back({{"name", token.name.name},
                      {"role", std::string(security::NameOf(token.name.role))},
                      {"issued", Json(token.issued)},
                      {"expires", Json(token.expires)},
                      {"revoked", Json(token.revoked)},
                      {"state", StateOf(token, now)}});
    }
    std::cout << json.dump(2) << "\n";
    return kDone;
  }
  Table table({{"name"}, {"role"}, {"state"}, {"issued"}, {"until"}});
  for (const Token& token : *list) {
    table.Add({token.name.name, std::string(security::NameOf(token.name.role)), StateOf(token, now),
               Date(token.issued), Date(token.expires)});
  }
  std::cout << table.Text();
  return kDone;
}

}  // namespace

void AddTokens(CLI::App& app, const Context& context, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("tokens", "Make and revoke the tokens of people and tools");
  sub->require_subcommand(1);
  sub->add_option("--tokens", flags->file, "the file of tokens, `tokens` in --dir if not given")
      ->envname("WARPSMITH_TOKENS");
  const auto add = [&](const char* name, const char* what, auto run) {
    CLI::App* command = sub->add_subcommand(name, what);
    command->callback([&context, &chosen, flags, run] {
      chosen = [&context, flags, run] { return run(context, *flags); };
    });
    return command;
  };
  CLI::App* issue = add("issue", "Make a token and print it", &Issue);
  issue->add_option("--role", flags->role, "submitter, operator or reader")->required();
  CLI::Option* days = issue->add_option("--days", flags->days, "how long it is good")
                          ->check(CLI::Range(1, kMaxDays))
                          ->capture_default_str();
  issue->add_flag("--forever", flags->forever, "until it is revoked")->excludes(days);
  CLI::App* revoke = add("revoke", "Have all tokens of a name refused", &Revoke);
  for (CLI::App* command : {issue, revoke}) {
    command->add_option("NAME", flags->name, "of a person or a tool")->required();
  }
  add("list", "Every token that was issued; the tokens themselves are not kept", &List);
}

}  // namespace warpsmith::cli
