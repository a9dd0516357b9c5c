#include "common/security/identity.h"

#include <openssl/x509_vfy.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/security/x509.h"

namespace warpsmith::security {
namespace {

using StorePtr = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;

void FreeStack(STACK_OF(X509) * certificates) { sk_X509_free(certificates); }
using StackPtr = std::unique_ptr<STACK_OF(X509), Freed<FreeStack>>;

// What a refused one is called, as far as it says.
std::string Called(const X509* certificate) {
  const absl::StatusOr<Name> name = NameIn(certificate);
  return absl::StrCat("certificate ", name.ok() ? UriOf(*name) : "without a warpsmith:// name",
                      ", serial ", SerialOf(certificate));
}

std::string RotateHint(const X509* certificate) {
  const absl::StatusOr<Name> name = NameIn(certificate);
  return absl::StrCat("`warpsmith certs rotate ", name.ok() ? name->name : "NAME",
                      "` where the authority is makes a new one");
}

absl::Status Refused(const X509* certificate, int error) {
  std::string why;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      why = absl::StrCat("it expired on ", Date(TimeOf(X509_get0_notAfter(certificate))), ": ",
                         RotateHint(certificate));
      break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      why = absl::StrCat("it is not valid before ", Date(TimeOf(X509_get0_notBefore(certificate))),
                         ": is the clock of this machine or of the authority's wrong?");
      break;
    case X509_V_ERR_CERT_REVOKED:
      why = "it was revoked: whoever runs the authority can issue a new one";
      break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      why =
          "the authority that is believed (--tls-ca) has not made it: issue one with that, or "
          "name another authority";
      break;
    case X509_V_ERR_INVALID_PURPOSE:
      why =
          "it is not for this use: a planner needs one of the role planner, and others one of "
          "their own";
      break;
    default:
      why = absl::StrCat(X509_verify_cert_error_string(error));
  }
  return absl::UnauthenticatedError(absl::StrCat(Called(certificate), ": ", why));
}

absl::StatusOr<std::string> ReadFor(const char* flag, const std::string& path, bool is_secret) {
  absl::StatusOr<std::string> text = is_secret ? base::ReadPrivateFile(path) : base::ReadFile(path);
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      absl::StrCat(flag, ": ", std::string(text.status().message())));
}

absl::Status AddOwn(const Files& files, Needs needs, absl::Time now, Identity& identity) {
  auto cert = ReadFor("--tls-cert", files.cert, /*is_secret=*/false);
  if (!cert.ok()) return cert.status();
  auto key = ReadFor("--tls-key", files.key, /*is_secret=*/true);
  if (!key.ok()) return key.status();
  const auto certificates = ParseCertificates(*cert, "--tls-cert " + files.cert);
  if (!certificates.ok()) return certificates.status();
  const absl::StatusOr<KeyPtr> parsed_key = ParseKey(*key, "--tls-key " + files.key);
  if (!parsed_key.ok()) return parsed_key.status();
  if (X509_check_private_key(certificates->front().get(), parsed_key->get()) != 1) {
    LastError();
    return absl::FailedPreconditionError(
        absl::StrCat("--tls-key ", files.key, " is not the key of --tls-cert ", files.cert,
                     ": both come from one `warpsmith certs issue` or `rotate`"));
  }
  const Use use = needs == Needs::kPlanner ? Use::kServer : Use::kClient;
  auto verified = identity.trust->Verify(*cert, *cert, use, now);
  if (!verified.ok()) {
    return absl::Status(
        verified.status().code(),
        absl::StrCat("--tls-cert ", files.cert, ": ", std::string(verified.status().message())));
  }
  if (needs == Needs::kPlanner && verified->name.role != Role::kPlanner) {
    return absl::FailedPreconditionError(
        absl::StrCat("--tls-cert ", files.cert, " is that of ", UriOf(verified->name),
                     ", and a planner needs one of the role planner: `warpsmith certs issue NAME "
                     "--role planner --host HOST`"));
  }
  identity.cert_pem = *std::move(cert);
  identity.key_pem = *std::move(key);
  identity.own = *std::move(verified);
  return absl::OkStatus();
}

}  // namespace

struct Trust::Store {
  StorePtr store;
};

Trust::Trust(std::unique_ptr<Store> store) : store_(std::move(store)) {}
Trust::~Trust() = default;

absl::StatusOr<std::shared_ptr<const Trust>> Trust::Make(const std::string& ca_pem,
                                                         const std::string& crl_pem) {
  const auto authorities = ParseCertificates(ca_pem, "--tls-ca");
  if (!authorities.ok()) return authorities.status();
  auto store = std::make_unique<Store>();
  store->store.reset(X509_STORE_new());
  for (const X509Ptr& authority : *authorities) {
    if (X509_check_ca(authority.get()) == 0) {
      return absl::InvalidArgumentError(
          "--tls-ca holds a certificate that is no authority's: name the authority's ca.crt");
    }
    if (X509_STORE_add_cert(store->store.get(), authority.get()) != 1) {
      return absl::InternalError(absl::StrCat("OpenSSL takes no --tls-ca: ", LastError()));
    }
  }
  if (!crl_pem.empty()) {
    const absl::StatusOr<X509CrlPtr> crl = ParseCrl(crl_pem, "--tls-crl");
    if (!crl.ok()) return crl.status();
    const bool ours = std::any_of(authorities->begin(), authorities->end(), [&](const auto& ca) {
      return X509_CRL_verify(crl->get(), X509_get0_pubkey(ca.get())) == 1;
    });
    LastError();
    if (!ours) {
      return absl::InvalidArgumentError(
          "--tls-crl was not signed by the authority of --tls-ca: both are files of one folder");
    }
    if (X509_STORE_add_crl(store->store.get(), crl->get()) != 1 ||
        X509_STORE_set_flags(store->store.get(), X509_V_FLAG_CRL_CHECK) != 1) {
      return absl::InternalError(absl::StrCat("OpenSSL takes no --tls-crl: ", LastError()));
    }
  }
  return std::shared_ptr<const Trust>(new Trust(std::move(store)));
}

absl::StatusOr<Trust::Verified> Trust::Verify(std::string_view certificate_pem,
                                              std::string_view chain_pem, Use use,
                                              absl::Time now) const {
  const auto certificates = ParseCertificates(certificate_pem, "the certificate");
  if (!certificates.ok()) return absl::UnauthenticatedError(certificates.status().message());
  X509* const certificate = certificates->front().get();
  std::vector<X509Ptr> chain;
  if (!chain_pem.empty()) {
    auto parsed = ParseCertificates(chain_pem, "the chain");
    if (parsed.ok()) chain = *std::move(parsed);
  }
  const StackPtr stack(sk_X509_new_null());
  for (const X509Ptr& each : chain) sk_X509_push(stack.get(), each.get());
  const StoreContextPtr context(X509_STORE_CTX_new());
  if (context == nullptr ||
      X509_STORE_CTX_init(context.get(), store_->store.get(), certificate, stack.get()) != 1) {
    return absl::InternalError(absl::StrCat("OpenSSL cannot verify: ", LastError()));
  }
  X509_VERIFY_PARAM* const param = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(param, absl::ToTimeT(now));
  X509_STORE_CTX_set_purpose(
      context.get(), use == Use::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  if (X509_verify_cert(context.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(context.get());
    // It may be the authority's that has expired.
    const X509* which = X509_STORE_CTX_get_current_cert(context.get());
    LastError();
    return Refused(which == nullptr ? certificate : which, error);
  }
  absl::StatusOr<Name> name = NameIn(certificate);
  if (!name.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat(Called(certificate), ": ", std::string(name.status().message())));
  }
  return Verified{*std::move(name), HostsIn(certificate), TimeOf(X509_get0_notBefore(certificate)),
                  TimeOf(X509_get0_notAfter(certificate))};
}

absl::Status CheckHost(const Trust::Verified& planner, const std::string& host) {
  for (const std::string& its : planner.hosts) {
    if (absl::AsciiStrToLower(its) == absl::AsciiStrToLower(host)) return absl::OkStatus();
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "the planner that answers is ", UriOf(planner.name), ", whose certificate is for ",
      planner.hosts.empty() ? "no host" : absl::StrJoin(planner.hosts, ", "), " and not for '",
      host, "': dial it by such a name, or issue it one with `--host ", host, "`"));
}

absl::StatusOr<std::shared_ptr<const Identity>> ReadIdentity(const Files& files, Needs needs,
                                                             absl::Time now) {
  if (files.cert.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(files.cert.empty()
                                          ? "--tls-key without --tls-cert: give both or none"
                                          : "--tls-cert without --tls-key: give both or none");
  }
  if (files.ca.empty()) {
    return absl::InvalidArgumentError("TLS needs the authority that is believed: give --tls-ca");
  }
  if (needs != Needs::kNothing && files.cert.empty()) {
    return absl::InvalidArgumentError("TLS needs --tls-cert and --tls-key beside --tls-ca");
  }
  auto identity = std::make_shared<Identity>();
  auto ca = ReadFor("--tls-ca", files.ca, /*is_secret=*/false);
  if (!ca.ok()) return ca.status();
  std::string crl;
  if (!files.crl.empty()) {
    auto text = ReadFor("--tls-crl", files.crl, /*is_secret=*/false);
    if (!text.ok()) return text.status();
    crl = *std::move(text);
    if (crl.empty()) return absl::InvalidArgumentError("--tls-crl " + files.crl + " is empty");
  }
  identity->ca_pem = *std::move(ca);
  auto trust = Trust::Make(identity->ca_pem, crl);
  if (!trust.ok()) return trust.status();
  identity->trust = *std::move(trust);
  if (!files.cert.empty()) {
    if (absl::Status status = AddOwn(files, needs, now, *identity); !status.ok()) return status;
  }
  return std::shared_ptr<const Identity>(std::move(identity));
}

std::string StampOf(const std::vector<std::string>& paths) {
  std::string stamp;
  for (const std::string& path : paths) {
    struct stat info {};
    if (path.empty() || stat(path.c_str(), &info) != 0) {
      absl::StrAppend(&stamp, "-;");
      continue;
    }
    absl::StrAppend(&stamp, info.st_dev, ".", info.st_ino, ".", info.st_size, ".", info.st_mode,
                    ".", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, ";");
  }
  return stamp;
}

absl::StatusOr<std::unique_ptr<WatchedIdentity>> WatchedIdentity::Open(const Files& files,
                                                                       Needs needs,
                                                                       absl::Time now) {
  std::unique_ptr<WatchedIdentity> watched(new WatchedIdentity(files, needs));
  const absl::StatusOr<bool> read = watched->Refresh(now);
  if (!read.ok()) return read.status();
  return watched;
}

absl::StatusOr<bool> WatchedIdentity::Refresh(absl::Time now) {
  absl::MutexLock one(&refresh_);
  // Of before they are read: what changes meanwhile is seen the next time.
  std::string stamp = StampOf({files_.ca, files_.cert, files_.key, files_.crl});
  if (stamp == stamp_) return false;
  auto identity = ReadIdentity(files_, needs_, now);
  if (!identity.ok()) return identity.status();
  stamp_ = std::move(stamp);
  absl::MutexLock lock(&mutex_);
  identity_ = *std::move(identity);
  return true;
}

std::shared_ptr<const Identity> WatchedIdentity::Now() const {
  absl::MutexLock lock(&mutex_);
  return identity_;
}

}  // namespace warpsmith::security
