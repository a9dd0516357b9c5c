// OpenSSL's objects, owned; and the little that both the authority and who verifies need of them.
// Internal to common/security.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/roles.h"

namespace warpsmith::security {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using X509Ptr = std::unique_ptr<X509, Freed<X509_free>>;
using X509CrlPtr = std::unique_ptr<X509_CRL, Freed<X509_CRL_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;

// What OpenSSL says that went wrong last; its queue of errors is empty afterwards.
std::string LastError();

// All certificates of a PEM text, in order; what is of another kind is passed over.
// InvalidArgument: there is none, or one is damaged; `what` names the text. None of these asks for
// a passphrase.
absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(std::string_view pem,
                                                       const std::string& what);
absl::StatusOr<KeyPtr> ParseKey(std::string_view pem, const std::string& what);
absl::StatusOr<std::vector<X509CrlPtr>> ParseCrls(std::string_view pem, const std::string& what);

std::string PemOf(const X509* certificate);
std::string PemOf(const std::vector<X509Ptr>& certificates);
std::string PemOf(const EVP_PKEY* key);
std::string PemOf(const X509_CRL* crl);

absl::Time TimeOf(const ASN1_TIME* time);
// "2026-11-28 21:10 UTC"
std::string Date(absl::Time time);
std::string SerialOf(const X509* certificate);    // hex; of one that is too long its beginning
std::string CommonNameOf(const X509_NAME* name);  // for people; "" if it has none

// The one warpsmith:// name among its alternative names. InvalidArgument: it has none, or several,
// or one that is not of the form.
absl::StatusOr<Name> NameIn(const X509* certificate);
// DNS names and addresses among them, for a planner. What is neither, as an address of 5 bytes, is
// left out.
std::vector<std::string> HostsIn(const X509* certificate);

}  // namespace warpsmith::security
