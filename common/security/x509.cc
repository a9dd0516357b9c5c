#include "common/security/x509.h"

#include <arpa/inet.h>
#include <openssl/err.h>

#include "absl/strings/str_cat.h"

namespace warpsmith::security {
namespace {

BioPtr Reader(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string Written(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

absl::Status Damaged(const std::string& what, const char* kind) {
  const std::string why = LastError();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " holds no ", kind, " in PEM form", why.empty() ? "" : ": ", why));
}

using NamesPtr = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

NamesPtr Names(const X509* certificate) {
  return NamesPtr(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
}

std::string Text(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<size_t>(ASN1_STRING_length(string))};
}

}  // namespace

std::string LastError() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (error == 0) return "";
  const char* reason = ERR_reason_error_string(error);
  return reason == nullptr ? absl::StrCat("OpenSSL error ", error) : reason;
}

absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(std::string_view pem,
                                                       const std::string& what) {
  const BioPtr bio = Reader(pem);
  std::vector<X509Ptr> all;
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(one);
  const unsigned long error = ERR_peek_last_error();
  if (all.empty() || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return Damaged(what, "certificate");
  }
  ERR_clear_error();
  return all;
}

absl::StatusOr<KeyPtr> ParseKey(std::string_view pem, const std::string& what) {
  // One with a passphrase cannot be read again without a person: none is asked for.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) return Damaged(what, "private key without passphrase");
  return key;
}

absl::StatusOr<X509CrlPtr> ParseCrl(std::string_view pem, const std::string& what) {
  X509CrlPtr crl(PEM_read_bio_X509_CRL(Reader(pem).get(), nullptr, nullptr, nullptr));
  if (crl == nullptr) return Damaged(what, "list of revoked certificates");
  return crl;
}

std::string PemOf(const X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return Written(bio.get());
}

std::string PemOf(const EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return Written(bio.get());
}

std::string PemOf(const X509_CRL* crl) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_CRL(bio.get(), crl);
  return Written(bio.get());
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();
  return absl::FromTM(fields, absl::UTCTimeZone());
}

std::string Date(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

std::string SerialOf(const X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* hex = BN_bn2hex(number);
  const std::string serial = hex;
  OPENSSL_free(hex);
  BN_free(number);
  return serial;
}

absl::StatusOr<Name> NameIn(const X509* certificate) {
  const NamesPtr names = Names(certificate);
  absl::StatusOr<Name> found = absl::InvalidArgumentError(
      "it has no name of the form warpsmith://ROLE/NAME: issue one with `warpsmith certs issue`");
  int count = 0;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    absl::StatusOr<Name> parsed = ParseUri(Text(name->d.uniformResourceIdentifier));
    if (!parsed.ok()) continue;
    found = std::move(parsed);
    ++count;
  }
  if (count > 1) return absl::InvalidArgumentError("it has several warpsmith:// names");
  return found;
}

std::vector<std::string> HostsIn(const X509* certificate) {
  const NamesPtr names = Names(certificate);
  std::vector<std::string> hosts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) hosts.push_back(Text(name->d.dNSName));
    if (name->type != GEN_IPADD) continue;
    char text[INET6_ADDRSTRLEN];
    const int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;
    inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), text, sizeof text);
    hosts.emplace_back(text);
  }
  return hosts;
}

}  // namespace warpsmith::security
