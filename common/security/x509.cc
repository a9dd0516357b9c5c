#include "common/security/x509.h"

#include <arpa/inet.h>
#include <openssl/err.h>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
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

// One with a passphrase cannot be read again without a person: none is asked for.
int NoPassphrase(char*, int, int, void*) { return -1; }

// All of one kind; `read` is the function of OpenSSL that reads the next one.
template <typename Ptr, typename Read>
absl::StatusOr<std::vector<Ptr>> ParseAll(std::string_view pem, const std::string& what,
                                          const char* kind, Read read) {
  const BioPtr bio = Reader(pem);
  std::vector<Ptr> all;
  while (auto* one = read(bio.get(), nullptr, &NoPassphrase, nullptr)) all.emplace_back(one);
  if (all.empty() || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return Damaged(what, kind);
  }
  ERR_clear_error();
  return all;
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
  return ParseAll<X509Ptr>(pem, what, "certificate", &PEM_read_bio_X509);
}

absl::StatusOr<KeyPtr> ParseKey(std::string_view pem, const std::string& what) {
  KeyPtr key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, &NoPassphrase, nullptr));
  if (key == nullptr) return Damaged(what, "private key without passphrase");
  return key;
}

absl::StatusOr<std::vector<X509CrlPtr>> ParseCrls(std::string_view pem, const std::string& what) {
  return ParseAll<X509CrlPtr>(pem, what, "list of revoked certificates", &PEM_read_bio_X509_CRL);
}

std::string PemOf(const X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return Written(bio.get());
}

std::string PemOf(const std::vector<X509Ptr>& certificates) {
  std::string pem;
  for (const X509Ptr& each : certificates) pem += PemOf(each.get());
  return pem;
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
  // Whoever connects chooses how long that of its certificate is (RFC 5280: 20 bytes at most).
  constexpr size_t kDigits = 40;
  if (ASN1_STRING_length(X509_get0_serialNumber(certificate)) > 4'096) return "(endless)";
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* hex = BN_bn2hex(number);
  std::string serial = hex;
  OPENSSL_free(hex);
  BN_free(number);
  if (serial.size() > kDigits) serial = serial.substr(0, kDigits) + "...";
  return serial;
}

std::string CommonNameOf(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return "";
  return absl::CHexEscape(Text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at))));
}

absl::StatusOr<Name> NameIn(const X509* certificate) {
  const NamesPtr names = Names(certificate);
  absl::StatusOr<Name> found = absl::InvalidArgumentError(
      "it has no name of the form warpsmith://ROLE/NAME: issue one with `warpsmith certs issue`");
  int count = 0;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const std::string uri = Text(name->d.uniformResourceIdentifier);
    if (!absl::StartsWithIgnoreCase(uri, "warpsmith:")) continue;
    found = ParseUri(uri);
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
    const int bytes = ASN1_STRING_length(name->d.iPAddress);
    if (bytes != sizeof(in_addr) && bytes != sizeof(in6_addr)) continue;
    char text[INET6_ADDRSTRLEN];
    inet_ntop(bytes == sizeof(in_addr) ? AF_INET : AF_INET6,
              ASN1_STRING_get0_data(name->d.iPAddress), text, sizeof text);
    hosts.emplace_back(text);
  }
  return hosts;
}

}  // namespace warpsmith::security
