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

// Authorities between a certificate and the one that is believed. Ours has none; a company's may.
constexpr int kMaxDepth = 4;
// Of OpenSSL: 112 bits, so RSA of 2048 bits or P-256, and no SHA-1.
constexpr int kAuthLevel = 2;

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

// `certificate` is that which is wrong, or an authority's on the way from it.
absl::Status Refused(X509* certificate, int error) {
  const bool ours = X509_check_ca(certificate) != 0;
  std::string why;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      why =
          absl::StrCat("it expired on ", Date(TimeOf(X509_get0_notAfter(certificate))), ": ",
                       ours ? "another authority has to be made (`warpsmith certs init`), and new "
                              "certificates by it"
                            : RotateHint(certificate));
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
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL:
    case X509_V_ERR_CA_MD_TOO_WEAK:
      why = "its key or its signature is too weak: it needs RSA of 2048 bits or P-256, and SHA-256";
      break;
    default:
      why = absl::StrCat(X509_verify_cert_error_string(error));
  }
  return absl::UnauthenticatedError(absl::StrCat(
      ours ? absl::StrCat("the authority '", CommonNameOf(X509_get_subject_name(certificate)), "'")
           : Called(certificate),
      ": ", why));
}

absl::StatusOr<std::string> ReadFor(const char* flag, const std::string& path, bool is_secret) {
  absl::StatusOr<std::string> text = is_secret ? base::ReadPrivateFile(path) : base::ReadFile(path);
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      absl::StrCat(flag, ": ", std::string(text.status().message())));
}

absl::Status AddOwn(const Files& files, Needs needs, absl::Time now, Identity& identity) {
  const bool one_file = files.cert == files.key;
  auto cert = ReadFor("--tls-cert", files.cert, /*is_secret=*/one_file);
  if (!cert.ok()) return cert.status();
  auto key = one_file ? cert : ReadFor("--tls-key", files.key, /*is_secret=*/true);
  if (!key.ok()) return key.status();
  const auto certificates = ParseCertificates(*cert, "--tls-cert " + files.cert);
  if (!certificates.ok()) return certificates.status();
  const absl::StatusOr<KeyPtr> parsed_key = ParseKey(*key, "--tls-key " + files.key);
  if (!parsed_key.ok()) return parsed_key.status();
  if (X509_check_private_key(certificates->front().get(), parsed_key->get()) != 1) {
    LastError();
    return absl::FailedPreconditionError(absl::StrCat(
        "--tls-key ", files.key, " is not the key of --tls-cert ", files.cert, ": ",
        one_file ? "take the file that `warpsmith certs issue` or `rotate` wrote as it is"
                 : "has one of the two been replaced alone? Replace the other too; a file with "
                   "both, as `warpsmith certs` writes it, may be named for both"));
  }
  // As they are sent: without the key, where one file has both.
  identity.cert_pem = PemOf(*certificates);
  identity.key_pem = PemOf(parsed_key->get());
  const Use use = needs == Needs::kPlanner ? Use::kServer : Use::kClient;
  auto verified = identity.trust->Verify(identity.cert_pem, identity.cert_pem, use, now);
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
  identity.own = *std::move(verified);
  return absl::OkStatus();
}

}  // namespace

// OpenSSL finds the chain; lists of revoked certificates are looked up here. It would refuse
// everybody of an authority without a list, and take one list for another authority's of that name.
struct Trust::Store {
  // An authority by its key: its certificate may have been made anew.
  struct List {
    KeyPtr signer;
    X509CrlPtr crl;
  };
  StorePtr store;
  std::vector<List> lists;

  absl::Status AddLists(const std::vector<X509Ptr>& authorities, const std::string& pem);
  // Of the certificate, which `issuer` made; narrows when that is so.
  absl::Status CheckList(X509* certificate, X509* issuer, absl::Time now, Verified& verified) const;
};

absl::Status Trust::Store::AddLists(const std::vector<X509Ptr>& authorities,
                                    const std::string& pem) {
  auto crls = ParseCrls(pem, "--tls-crl");
  if (!crls.ok()) return crls.status();
  for (size_t i = 0; i < crls->size(); ++i) {
    X509CrlPtr& crl = (*crls)[i];
    const std::string which =
        absl::StrCat("--tls-crl, list ", i + 1, " of ", crls->size(), ", of the authority '",
                     CommonNameOf(X509_CRL_get_issuer(crl.get())), "'");
    const auto signer = std::find_if(authorities.begin(), authorities.end(), [&](const auto& ca) {
      return (X509_get_key_usage(ca.get()) & KU_CRL_SIGN) != 0 &&
             X509_NAME_cmp(X509_get_subject_name(ca.get()), X509_CRL_get_issuer(crl.get())) == 0 &&
             X509_CRL_verify(crl.get(), X509_get0_pubkey(ca.get())) == 1;
    });
    LastError();
    if (signer == authorities.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          which, ", was not signed by an authority of --tls-ca: both are files of one folder"));
    }
    // Such a one is of a part of what was revoked, and tells so in an extension of that kind.
    for (int e = 0; e < X509_CRL_get_ext_count(crl.get()); ++e) {
      if (X509_EXTENSION_get_critical(X509_CRL_get_ext(crl.get(), e)) == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(which, ", has a critical extension: give a full list"));
    }
    KeyPtr key(X509_get_pubkey(signer->get()));
    lists.push_back({std::move(key), std::move(crl)});
  }
  return absl::OkStatus();
}

absl::Status Trust::Store::CheckList(X509* certificate, X509* issuer, absl::Time now,
                                     Verified& verified) const {
  bool listed = false;
  // Of several lists of one authority the last one says when they end.
  absl::Time from = absl::InfiniteFuture(), until = absl::InfinitePast();
  for (const List& list : lists) {
    X509_CRL* const crl = list.crl.get();
    if (X509_NAME_cmp(X509_CRL_get_issuer(crl), X509_get_subject_name(issuer)) != 0 ||
        EVP_PKEY_eq(list.signer.get(), X509_get0_pubkey(issuer)) != 1) {
      continue;
    }
    X509_REVOKED* entry = nullptr;
    if (X509_CRL_get0_by_cert(crl, &entry, certificate) != 0) {
      return Refused(certificate, X509_V_ERR_CERT_REVOKED);
    }
    listed = true;
    const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(crl);
    from = std::min(from, TimeOf(X509_CRL_get0_lastUpdate(crl)));
    until = std::max(until, next == nullptr ? absl::InfiniteFuture() : TimeOf(next));
  }
  if (!listed) return absl::OkStatus();
  if (now < from || now > until) {
    return absl::UnauthenticatedError(absl::StrCat(
        Called(certificate), ": the list of what its authority has revoked (--tls-crl) ",
        now < from ? absl::StrCat("is not valid before ", Date(from))
                   : absl::StrCat("expired on ", Date(until)),
        ": get the authority's newest list"));
  }
  verified.not_before = std::max(verified.not_before, from);
  verified.not_after = std::min(verified.not_after, until);
  return absl::OkStatus();
}

Trust::Trust(std::unique_ptr<Store> store) : store_(std::move(store)) {}
Trust::~Trust() = default;

absl::StatusOr<std::shared_ptr<const Trust>> Trust::Make(const std::string& ca_pem,
                                                         const std::string& crl_pem) {
  const auto authorities = ParseCertificates(ca_pem, "--tls-ca");
  if (!authorities.ok()) return authorities.status();
  auto store = std::make_unique<Store>();
  store->store.reset(X509_STORE_new());
  for (const X509Ptr& authority : *authorities) {
    if (X509_check_ca(authority.get()) != 1) {
      return absl::InvalidArgumentError(
          "--tls-ca holds a certificate that is no authority's: name the authority's ca.crt");
    }
    if (X509_STORE_add_cert(store->store.get(), authority.get()) != 1) {
      return absl::InternalError(absl::StrCat("OpenSSL takes no --tls-ca: ", LastError()));
    }
  }
  if (!crl_pem.empty()) {
    absl::Status added = store->AddLists(*authorities, crl_pem);
    if (!added.ok()) return added;
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
  X509_VERIFY_PARAM_set_depth(param, kMaxDepth);
  X509_VERIFY_PARAM_set_auth_level(param, kAuthLevel);
  X509_STORE_CTX_set_purpose(
      context.get(), use == Use::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  if (X509_verify_cert(context.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(context.get());
    // It may be the authority's that has expired.
    X509* const which = X509_STORE_CTX_get_current_cert(context.get());
    LastError();
    return Refused(which == nullptr ? certificate : which, error);
  }
  absl::StatusOr<Name> name = NameIn(certificate);
  if (!name.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat(Called(certificate), ": ", std::string(name.status().message())));
  }
  Verified verified{*std::move(name), HostsIn(certificate), absl::InfinitePast(),
                    absl::InfiniteFuture()};
  STACK_OF(X509)* const found = X509_STORE_CTX_get0_chain(context.get());
  for (int i = 0; i < sk_X509_num(found); ++i) {
    X509* const each = sk_X509_value(found, i);
    verified.not_before = std::max(verified.not_before, TimeOf(X509_get0_notBefore(each)));
    verified.not_after = std::min(verified.not_after, TimeOf(X509_get0_notAfter(each)));
    if (i + 1 == sk_X509_num(found)) break;
    absl::Status listed = store_->CheckList(each, sk_X509_value(found, i + 1), now, verified);
    if (!listed.ok()) return listed;
  }
  return verified;
}

absl::Status CheckHost(const Trust::Verified& planner, const std::string& host) {
  for (const std::string& its : planner.hosts) {
    if (!host.empty() && absl::AsciiStrToLower(its) == absl::AsciiStrToLower(host))
      return absl::OkStatus();
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "the planner that answers is ", UriOf(planner.name), ", whose certificate is for ",
      planner.hosts.empty() ? "no host" : absl::StrJoin(planner.hosts, ", "), " and not for '",
      host, "': dial it by such a name, or `warpsmith certs rotate ", planner.name.name, " --host ",
      host, "` where the authority is"));
}

namespace {

// With the authority and what it has revoked alone.
absl::StatusOr<std::shared_ptr<Identity>> ReadTrust(const Files& files);

}  // namespace

absl::StatusOr<std::shared_ptr<const Identity>> ReadIdentity(const Files& files, Needs needs,
                                                             absl::Time now) {
  if (files.cert.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(files.cert.empty()
                                          ? "--tls-key without --tls-cert: give both, or none"
                                          : "--tls-cert without --tls-key: give both, which may be "
                                            "one file, or none");
  }
  if (files.ca.empty()) {
    return absl::InvalidArgumentError("TLS needs the authority that is believed: give --tls-ca");
  }
  if (needs != Needs::kNothing && files.cert.empty()) {
    return absl::InvalidArgumentError("TLS needs --tls-cert and --tls-key beside --tls-ca");
  }
  absl::StatusOr<std::shared_ptr<Identity>> identity = ReadTrust(files);
  if (!identity.ok()) return identity.status();
  if (!files.cert.empty()) {
    if (absl::Status status = AddOwn(files, needs, now, **identity); !status.ok()) return status;
  }
  return std::shared_ptr<const Identity>(*std::move(identity));
}

namespace {

absl::StatusOr<std::shared_ptr<Identity>> ReadTrust(const Files& files) {
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
  return identity;
}

}  // namespace

std::string StampOf(const std::vector<std::string>& paths) {
  std::string stamp;
  for (const std::string& path : paths) {
    struct stat info {};
    if (path.empty() || stat(path.c_str(), &info) != 0) {
      absl::StrAppend(&stamp, "-;");
      continue;
    }
    absl::StrAppend(&stamp, info.st_dev, ".", info.st_ino, ".", info.st_size, ".", info.st_mode,
                    ".", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, ".", info.st_ctim.tv_sec,
                    ".", info.st_ctim.tv_nsec, ";");
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
  if (!identity.ok()) {
    // Whom it believes does not wait for its own certificate to be right.
    const std::string trust_stamp = StampOf({files_.ca, files_.crl});
    absl::StatusOr<std::shared_ptr<Identity>> renewed = ReadTrust(files_);
    const std::shared_ptr<const Identity> old = Now();
    if (old != nullptr && renewed.ok() && trust_stamp != trust_stamp_) {
      (*renewed)->cert_pem = old->cert_pem;
      (*renewed)->key_pem = old->key_pem;
      (*renewed)->own = old->own;
      trust_stamp_ = trust_stamp;
      absl::MutexLock lock(&mutex_);
      identity_ = *std::move(renewed);
    }
    return identity.status();
  }
  trust_stamp_ = StampOf({files_.ca, files_.crl});
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
