#include "common/rpc/health.h"

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/command.h"
#include "common/http/client.h"
#include "common/rpc/address.h"
#include "common/security/dialer.h"

namespace warpsmith::cli {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(5);

// The planner at --planner, or the one that runs on --dir.
absl::StatusOr<std::string> AddressOf(const Context& context) {
  if (!context.planner.empty()) return context.planner;
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  absl::StatusOr<rpc::Addresses> addresses = rpc::ReadAddresses(context.dir);
  if (!addresses.ok()) return absl::UnavailableError(addresses.status().message());
  return addresses->clients;
}

absl::Status Planner(const Context& context) {
  absl::StatusOr<std::string> address = AddressOf(context);
  if (!address.ok()) return address.status();
  security::Dialer dialer({context.tls.files, context.token_file}, &absl::Now);
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer.Dial(*address);
  if (!channel.ok()) return channel.status();
  const absl::Status healthy = rpc::CheckHealth(*channel, absl::ToInt64Milliseconds(kLimit));
  if (healthy.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "the planner at ", *address, " is not well, or not there: ", std::string(healthy.message()),
      "; its log says more, where it runs"));
}

absl::StatusOr<int> Health(const Context& context, const std::string& http) {
  if (http.empty()) {
    if (absl::Status healthy = Planner(context); !healthy.ok()) return healthy;
    std::cout << "serves\n";
    return kDone;
  }
  absl::StatusOr<std::string> text = http::Get(http, "/healthz", context.tls.files.ca, kLimit);
  if (!text.ok()) return text.status();
  std::cout << *text;
  return kDone;
}

}  // namespace

void AddHealth(CLI::App& app, const Context& context, Command& chosen) {
  CLI::App* sub = app.add_subcommand("health", "Ask a planner or a worker whether it is well");
  auto http = std::make_shared<std::string>();
  sub->add_option("--http", *http,
                  "HOST:PORT that a planner or a worker was given as --listen-http");
  sub->callback(
      [&context, &chosen, http] { chosen = [&context, http] { return Health(context, *http); }; });
}

}  // namespace warpsmith::cli
