#include "common/rpc/address.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"

namespace warpsmith::rpc {
namespace {

// A unix socket's path is limited by sockaddr_un.
constexpr size_t kMaxSocketPath = 107;

}  // namespace

std::string DefaultDir(const char* xdg_data_home, const char* home) {
  // The XDG specification has a path that is not absolute ignored.
  if (xdg_data_home != nullptr && *xdg_data_home == '/') {
    return absl::StrCat(xdg_data_home, "/warpsmith");
  }
  if (home != nullptr && *home != '\0') return absl::StrCat(home, "/.local/share/warpsmith");
  return "";
}

std::string Text(const Addresses& addresses) {
  if (addresses.clients == addresses.workers) return addresses.workers;
  return absl::StrCat(addresses.workers, "\n", addresses.clients);
}

Addresses ParseAddresses(const std::string& text) {
  const size_t end = text.find('\n');
  if (end == text.npos || end + 1 == text.size()) return {text.substr(0, end), text.substr(0, end)};
  std::string clients = text.substr(end + 1);
  return {text.substr(0, end), clients.substr(0, clients.find('\n'))};
}

bool IsEveryAddress(const std::string& listening) {
  return absl::StartsWith(listening, "0.0.0.0:") || absl::StartsWith(listening, "[::]:");
}

std::string Reachable(const std::string& listening) {
  if (!IsEveryAddress(listening)) return listening;
  return absl::StrCat("127.0.0.1", listening.substr(listening.rfind(':')));
}

absl::StatusOr<std::string> ReadAddress(const std::string& dir) {
  absl::StatusOr<Addresses> addresses = ReadAddresses(dir);
  if (!addresses.ok()) return addresses.status();
  return addresses->workers;
}

absl::StatusOr<Addresses> ReadAddresses(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kAddressFile);
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  if (!text.ok() || ParseAddresses(*text).workers.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no planner is running on ", dir, " (", path,
        " is missing): start one with `warpsmith up`, or name another folder with --dir"));
  }
  return ParseAddresses(*text);
}

absl::Status WriteAddresses(const std::string& dir, const Addresses& addresses) {
  return base::WriteFileAtomically(absl::StrCat(dir, "/", kAddressFile),
                                   absl::StrCat(Text(addresses), "\n"));
}

void RemoveAddress(const std::string& dir) { unlink(absl::StrCat(dir, "/", kAddressFile).c_str()); }

absl::Status ValidateListenAddress(const std::string& address, bool secured) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    if (rest.empty() || rest.size() > kMaxSocketPath) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", address, "': a unix socket's path has 1 to ", kMaxSocketPath, " characters"));
    }
    return absl::OkStatus();
  }
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "': give 127.0.0.1:PORT (port 0 picks one) or unix:/path"));
  }
  const std::string host = address.substr(0, colon);
  if (host.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "': name the host, too: 127.0.0.1:PORT, or 0.0.0.0:PORT for all there are"));
  }
  if (!secured && host != "localhost" && host != "[::1]" && !absl::StartsWith(host, "127.")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address,
        "': without TLS nobody knows who calls, so the planner listens on loopback or a unix ",
        "socket only: give 127.0.0.1:PORT or unix:/path, or certificates with --tls-ca, --tls-cert "
        "and --tls-key (`warpsmith certs` makes them)"));
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::rpc
