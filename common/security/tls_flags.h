// The flags of TLS, of every program that has a connection.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "common/security/dialer.h"
#include "common/security/identity.h"

namespace warpsmith::security {

struct TlsFlags {
  Files files;

  void AddTo(CLI::App& app) {
    const auto add = [&app](const char* flag, std::string& path, const char* what,
                            const char* variable) {
      app.add_option(flag, path, what)->envname(variable);
    };
    add("--tls-ca", files.ca, "certificate of the authority that is believed: calls go by TLS",
        "WARPSMITH_TLS_CA");
    add("--tls-cert", files.cert, "with --tls-ca: this program's certificate",
        "WARPSMITH_TLS_CERT");
    add("--tls-key", files.key, "with --tls-cert: its key, for its owner alone",
        "WARPSMITH_TLS_KEY");
    add("--tls-crl", files.crl, "with --tls-ca: what the authority has revoked",
        "WARPSMITH_TLS_CRL");
  }
  bool given() const {
    return !files.ca.empty() || !files.cert.empty() || !files.key.empty() || !files.crl.empty();
  }
};

}  // namespace warpsmith::security
