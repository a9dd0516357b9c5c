// Asks by HTTP, as probes do.
//
//   absl::StatusOr<std::string> text = http::Get("127.0.0.1:7480", "/healthz", "",
//   absl::Seconds(5));
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpsmith::http {

// What is answered there. `address`: "HOST:PORT"; `ca`: file with the certificate of the authority
// that the server's has to be of, for its host's name; "": not by TLS. Unavailable: nobody answers
// in time, or with another status than 200; the message has both. InvalidArgument: no such address.
absl::StatusOr<std::string> Get(const std::string& address, const std::string& path,
                                const std::string& ca, absl::Duration limit);

}  // namespace warpsmith::http
