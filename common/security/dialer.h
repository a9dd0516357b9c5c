// A client's way to a planner: plain, or by TLS with what its files say.
//
//   Dialer dialer({.tls = {.ca = ca, .cert = cert, .key = key}, .token_file = file}, absl::Now);
//   absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer.Dial(address);
//
// What can be wrong with the client's own files is found before dialling, and said: missing,
// damaged, a secret that others can read, expired, revoked. Files that changed are used from the
// next Dial on. Not thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/identity.h"

namespace warpsmith::security {

inline constexpr size_t kMaxDialled = 8;  // addresses whose channels are kept

struct ClientFiles {
  Files tls;               // ca "": no TLS
  std::string token_file;  // "": no token; sent over TLS alone
};

class Dialer {
 public:
  Dialer() = default;  // plain
  Dialer(ClientFiles files, std::function<absl::Time()> date)
      : files_(std::move(files)), date_(std::move(date)) {}

  // The same channel to an address as before, if no file has changed, and while changed files are
  // wrong and the certificate in use is good.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address);

 private:
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials();

  ClientFiles files_;
  std::function<absl::Time()> date_;
  std::string stamp_;
  std::string trouble_;                       // that was told
  absl::Time ends_ = absl::InfiniteFuture();  // the certificate in use
  // By address, with the files as they are: who goes from one planner to another and back has its
  // connection still.
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace warpsmith::security
