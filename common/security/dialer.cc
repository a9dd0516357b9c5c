#include "common/security/dialer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/private_file.h"
#include "common/rpc/channel.h"
#include "common/security/log.h"
#include "common/security/tls.h"

namespace warpsmith::security {

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Dialer::Credentials() {
  const Files& tls = files_.tls;
  if (tls.ca.empty()) {
    if (tls.cert.empty() && tls.key.empty() && tls.crl.empty() && files_.token_file.empty()) {
      return grpc::InsecureChannelCredentials();
    }
    return absl::InvalidArgumentError(
        "certificates and tokens are for TLS, which needs the authority that is believed: give "
        "--tls-ca");
  }
  auto identity = ReadIdentity(tls, Needs::kNothing, date_());
  if (!identity.ok()) return identity.status();
  std::string token;
  if (!files_.token_file.empty()) {
    absl::StatusOr<std::string> text = base::ReadPrivateFile(files_.token_file);
    if (!text.ok()) {
      return absl::Status(text.status().code(),
                          absl::StrCat("--token-file: ", std::string(text.status().message())));
    }
    token = std::string(absl::StripAsciiWhitespace(*text));
    if (token.empty()) {
      return absl::InvalidArgumentError("--token-file " + files_.token_file + " is empty");
    }
    // gRPC takes no other text for a header.
    if (!std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--token-file ", files_.token_file,
          " holds no token: that is the one line that `warpsmith tokens issue` wrote"));
    }
  }
  ends_ = (*identity)->cert_pem.empty() ? absl::InfiniteFuture() : (*identity)->own.not_after;
  return ChannelCredentials(*std::move(identity), token, date_);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dialer::Dial(const std::string& address) {
  std::string stamp =
      StampOf({files_.tls.ca, files_.tls.cert, files_.tls.key, files_.tls.crl, files_.token_file});
  const bool over = ends_ != absl::InfiniteFuture() && date_() > ends_;
  const auto dialled = channels_.find(address);
  const bool is_there = dialled != channels_.end() && !over;
  if (is_there && stamp == stamp_) return dialled->second;
  auto credentials = Credentials();
  if (!credentials.ok()) {
    if (!is_there) return credentials.status();
    // They are being replaced, or their disk is away: what it has is good.
    const std::string trouble(credentials.status().message());
    if (trouble != trouble_) telemetry::Log(told::kTlsNotTaken, {{"reason", trouble}});
    trouble_ = trouble;
    return dialled->second;
  }
  trouble_.clear();
  if (stamp != stamp_ || over || channels_.size() >= kMaxDialled) channels_.clear();
  stamp_ = std::move(stamp);
  return channels_[address] = rpc::Dial(address, *std::move(credentials));
}

}  // namespace warpsmith::security
