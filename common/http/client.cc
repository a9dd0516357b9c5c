#include "common/http/client.h"

#include <httplib.h>

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace warpsmith::http {
namespace {

std::unique_ptr<httplib::ClientImpl> Connection(const std::string& host, int port,
                                                const std::string& ca) {
  if (ca.empty()) return std::make_unique<httplib::ClientImpl>(host, port);
  auto secured = std::make_unique<httplib::SSLClient>(host, port);
  secured->set_ca_cert_path(ca.c_str());
  secured->enable_server_certificate_verification(true);
  return secured;
}

}  // namespace

absl::StatusOr<std::string> Get(const std::string& address, const std::string& path,
                                const std::string& ca, absl::Duration limit) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "': give HOST:PORT"));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const auto connection = Connection(host, port, ca);
  const auto microseconds = std::chrono::microseconds(absl::ToInt64Microseconds(limit));
  connection->set_connection_timeout(microseconds);
  connection->set_read_timeout(microseconds);
  connection->set_write_timeout(microseconds);
  const httplib::Result result = connection->Get(path.c_str());
  const std::string where = absl::StrCat(ca.empty() ? "http" : "https", "://", address, path);
  if (!result) {
    return absl::UnavailableError(
        absl::StrCat(where, ": no answer: ", httplib::to_string(result.error())));
  }
  if (result->status != 200) {
    return absl::UnavailableError(
        absl::StrCat(where, ": status ", result->status, ": ",
                     std::string(absl::StripAsciiWhitespace(result->body))));
  }
  return result->body;
}

}  // namespace warpsmith::http
