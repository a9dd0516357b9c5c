// Whom an authority's certificates and lists make one believe, and whom not: with certificates that
// no Authority makes, which others may send.
#include <openssl/ec.h>
#include <openssl/rsa.h>

#include <catch2/catch.hpp>

#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/security/authority.h"
#include "common/security/identity.h"
#include "common/security/testing.h"
#include "common/security/x509.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::security {
namespace {

// An authority in a folder, and what its key can sign.
struct Signer {
  support::TemporaryFolder folder;
  Authority authority{folder.path()};
  X509Ptr certificate;
  KeyPtr key;

  explicit Signer(const std::string& name = "fleet", absl::Duration life = kAuthorityLife) {
    REQUIRE(authority.Init(name, life, kNow - 10 * kDay).ok());
    certificate = std::move(ParseCertificates(Ca(), "ca")->front());
    key = *ParseKey(*base::ReadPrivateFile(authority.Path("ca.key")), "key");
  }
  std::string Ca() const { return *base::ReadFile(authority.Path("ca.crt")); }
  std::string Crl() const { return *base::ReadFile(authority.Path("crl.pem")); }
  // The certificate of a new one.
  std::string Issue(Role role, const std::string& name) {
    const auto issued = authority.Issue({{role, name}}, kNow);
    REQUIRE(issued.status() == absl::OkStatus());
    return *base::ReadFile(issued->key);
  }
};

struct Crafted {
  std::vector<std::string> uris, dns, addresses;  // as bytes
  std::string usage = "digitalSignature", extended = "clientAuth", constraints = "CA:FALSE";
  absl::Time from = kNow - kDay, until = kNow + 90 * kDay;
  const EVP_MD* digest = EVP_sha256();
  EVP_PKEY* key = nullptr;  // none: a new one
  int serial_bytes = 16;
};

void Extend(X509* made, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  REQUIRE(extension != nullptr);
  X509_add_ext(made, extension, -1);
  X509_EXTENSION_free(extension);
}

std::string Craft(const Signer& signer, const Crafted& wanted) {
  X509Ptr made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  const std::string serial(static_cast<size_t>(wanted.serial_bytes), '\x42');
  BIGNUM* number = BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()),
                             wanted.serial_bytes, nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(made.get()));
  BN_free(number);
  ASN1_TIME_set(X509_getm_notBefore(made.get()), absl::ToTimeT(wanted.from));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), absl::ToTimeT(wanted.until));
  const KeyPtr own(EVP_EC_gen("P-256"));
  X509_set_pubkey(made.get(), wanted.key == nullptr ? own.get() : wanted.key);
  X509_set_issuer_name(made.get(), X509_get_subject_name(signer.certificate.get()));
  Extend(made.get(), NID_basic_constraints, wanted.constraints);
  Extend(made.get(), NID_key_usage, wanted.usage);
  if (!wanted.extended.empty()) Extend(made.get(), NID_ext_key_usage, wanted.extended);
  GENERAL_NAMES* names = GENERAL_NAMES_new();
  const auto add = [&](int type, ASN1_STRING* string, const std::string& text) {
    ASN1_STRING_set(string, text.data(), static_cast<int>(text.size()));
    GENERAL_NAME* name = GENERAL_NAME_new();
    GENERAL_NAME_set0_value(name, type, string);
    sk_GENERAL_NAME_push(names, name);
  };
  for (const std::string& uri : wanted.uris) add(GEN_URI, ASN1_IA5STRING_new(), uri);
  for (const std::string& host : wanted.dns) add(GEN_DNS, ASN1_IA5STRING_new(), host);
  for (const std::string& each : wanted.addresses) add(GEN_IPADD, ASN1_OCTET_STRING_new(), each);
  if (sk_GENERAL_NAME_num(names) > 0) {
    X509_add1_ext_i2d(made.get(), NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT);
  }
  GENERAL_NAMES_free(names);
  REQUIRE(X509_sign(made.get(), signer.key.get(), wanted.digest) > 0);
  return PemOf(made.get());
}

struct List {
  std::vector<const X509*> revoked;
  absl::Time from = kNow - kDay, until = kNow + 30 * kDay;
  bool partial = false;
};

std::string Craft(const Signer& signer, const List& wanted) {
  X509CrlPtr crl(X509_CRL_new());
  X509_CRL_set_version(crl.get(), X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(signer.certificate.get()));
  ASN1_TIME* from = ASN1_TIME_set(nullptr, absl::ToTimeT(wanted.from));
  ASN1_TIME* until = ASN1_TIME_set(nullptr, absl::ToTimeT(wanted.until));
  X509_CRL_set1_lastUpdate(crl.get(), from);
  X509_CRL_set1_nextUpdate(crl.get(), until);
  for (const X509* certificate : wanted.revoked) {
    X509_REVOKED* entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry,
                                  const_cast<ASN1_INTEGER*>(X509_get0_serialNumber(certificate)));
    X509_REVOKED_set_revocationDate(entry, from);
    X509_CRL_add0_revoked(crl.get(), entry);
  }
  if (wanted.partial) {
    ASN1_INTEGER* base = ASN1_INTEGER_new();
    X509_CRL_add1_ext_i2d(crl.get(), NID_delta_crl, base, /*crit=*/1, 0);
    ASN1_INTEGER_free(base);
  }
  ASN1_TIME_free(from);
  ASN1_TIME_free(until);
  X509_CRL_sort(crl.get());
  REQUIRE(X509_CRL_sign(crl.get(), signer.key.get(), EVP_sha256()) > 0);
  return PemOf(crl.get());
}

std::shared_ptr<const Trust> Believe(const std::string& ca, const std::string& crl) {
  const auto trust = Trust::Make(ca, crl);
  REQUIRE(trust.status() == absl::OkStatus());
  return *trust;
}

// "" if it is believed.
std::string Verify(const Trust& trust, const std::string& pem, Use use = Use::kClient,
                   absl::Time now = kNow) {
  return Message(trust.Verify(pem, "", use, now).status());
}

TEST_CASE("a list counts for the authority that it is of, also while there are two") {
  // Of one name, as two that were made with the same command are.
  for (const char* second : {"fleet", "other"}) {
    INFO(second);
    Signer a, b(second);
    const std::string of_a = a.Issue(Role::kWorker, "w"), gone_a = a.Issue(Role::kWorker, "g");
    const std::string of_b = b.Issue(Role::kWorker, "w"), gone_b = b.Issue(Role::kWorker, "g");
    REQUIRE(*a.authority.Revoke("g", kNow) == 1);
    REQUIRE(*b.authority.Revoke("g", kNow) == 1);
    for (const std::string& both : {a.Ca() + b.Ca(), b.Ca() + a.Ca()}) {
      const auto one = Believe(both, a.Crl());
      CHECK(Verify(*one, of_a) == "");
      CHECK(Verify(*one, of_b) == "");
      CHECK_THAT(Verify(*one, gone_a), Contains("was revoked"));
      CHECK(Verify(*one, gone_b) == "");
      for (const std::string& lists : {a.Crl() + b.Crl(), b.Crl() + a.Crl()}) {
        const auto two = Believe(both, lists);
        CHECK(Verify(*two, of_a) == "");
        CHECK(Verify(*two, of_b) == "");
        CHECK_THAT(Verify(*two, gone_a), Contains("was revoked"));
        CHECK_THAT(Verify(*two, gone_b), Contains("was revoked"));
      }
    }
    // One of none of the authorities: which is said.
    const absl::Status refused = Trust::Make(a.Ca(), a.Crl() + b.Crl()).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK_THAT(Message(refused), Contains("list 2 of 2") && Contains("'" + std::string(second)));
  }
}

TEST_CASE("all lists of an authority count, and one that is not good is refused") {
  Signer a;
  const std::string x = a.Issue(Role::kWorker, "x"), y = a.Issue(Role::kWorker, "y");
  const auto cert = [](const std::string& pem) {
    return std::move(ParseCertificates(pem, "x")->front());
  };
  const X509Ptr of_x = cert(x), of_y = cert(y);
  const auto both = Believe(
      a.Ca(), Craft(a, List{.revoked = {of_x.get()}}) + Craft(a, List{.revoked = {of_y.get()}}));
  CHECK_THAT(Verify(*both, x), Contains("was revoked"));
  CHECK_THAT(Verify(*both, y), Contains("was revoked"));
  const auto dated = Believe(a.Ca(), Craft(a, List{.revoked = {of_x.get()}}));
  CHECK(Verify(*dated, y) == "");
  CHECK_THAT(Verify(*dated, y, Use::kClient, kNow + 31 * kDay),
             Contains("the list of what its authority has revoked") && Contains("expired on"));
  CHECK_THAT(Verify(*Believe(a.Ca(), Craft(a, List{.from = kNow + kDay})), y),
             Contains("is not valid before"));
  // Remembered for no longer than the list is good for.
  CHECK(dated->Verify(y, "", Use::kClient, kNow)->not_after == kNow + 30 * kDay);
  CHECK_THAT(Message(Trust::Make(a.Ca(), Craft(a, List{.partial = true})).status()),
             Contains("give a full list"));
  CHECK_THAT(Message(Trust::Make(a.Ca(), "rubbish").status()), Contains("holds no list"));
  CHECK_THAT(Message(Trust::Make(a.Ca(), a.Crl() + a.Crl().substr(0, 200)).status()),
             Contains("holds no list"));
}

TEST_CASE("an authority that has expired is said to have, and its certificates are refused") {
  Signer brief("fleet", 20 * kDay);
  const std::string pem = Craft(brief, Crafted{.uris = {"warpsmith://worker/w"}});
  const auto trust = Believe(brief.Ca(), "");
  CHECK(Verify(*trust, pem) == "");
  CHECK(trust->Verify(pem, "", Use::kClient, kNow)->not_after == kNow + 10 * kDay);
  CHECK_THAT(Verify(*trust, pem, Use::kClient, kNow + 11 * kDay),
             Contains("the authority 'fleet': it expired") && Contains("certs init") &&
                 !Contains("rotate"));
}

TEST_CASE("another authority of the same name makes nothing that is believed") {
  Signer ours, theirs;
  const auto trust = Believe(ours.Ca(), ours.Crl());
  CHECK_THAT(Verify(*trust, theirs.Issue(Role::kOperator, "ada")), Contains("has not made it"));
  // Not with its own authority beside it, either.
  CHECK_FALSE(
      trust->Verify(theirs.Issue(Role::kOperator, "eve"), theirs.Ca(), Use::kClient, kNow).ok());
  // Nor by one that is no authority itself.
  ours.Issue(Role::kWorker, "w");
  Signer posing;
  const std::string pair = *base::ReadFile(ours.authority.Path("w.pem"));
  posing.certificate = std::move(ParseCertificates(pair, "w")->front());
  posing.key = *ParseKey(pair, "w");
  const std::string made = Craft(posing, Crafted{.uris = {"warpsmith://operator/eve"}});
  CHECK_FALSE(trust->Verify(made, pair, Use::kClient, kNow).ok());
}

TEST_CASE("a name that is not one name is refused") {
  Signer a;
  const auto trust = Believe(a.Ca(), "");
  const auto name = [&](std::vector<std::string> uris) {
    return Verify(*trust, Craft(a, Crafted{.uris = std::move(uris)}));
  };
  const std::string worker = "warpsmith://worker/w";
  CHECK(name({worker}) == "");
  CHECK(name({"spiffe://company/x", worker}) == "");
  CHECK_THAT(name({}), Contains("has no name"));
  CHECK_THAT(name({"spiffe://company/x"}), Contains("has no name"));
  CHECK_THAT(name({worker, "warpsmith://operator/x"}), Contains("several"));
  CHECK_THAT(name({worker, worker}), Contains("several"));
  CHECK_THAT(name({worker, "WARPSMITH://operator/x"}), Contains("several"));
  CHECK_THAT(name({worker, std::string("warpsmith://operator/x\0.y", 26)}), Contains("several"));
  for (const std::string& bad :
       {std::string("warpsmith://operator/x\0y", 24), std::string("warpsmith://operator/"),
        std::string("warpsmith://operator/*"), std::string("warpsmith://operator/x "),
        std::string("Warpsmith://operator/x"), std::string("warpsmith://nobody/x"),
        std::string("warpsmith://local/x")}) {
    INFO(bad);
    CHECK_THAT(name({bad}), Contains("is not of the form"));
  }
}

TEST_CASE("hosts are taken as they are") {
  Signer a;
  const auto trust = Believe(a.Ca(), "");
  const std::string pem =
      Craft(a, Crafted{.uris = {"warpsmith://planner/p"},
                       .dns = {"*.example", std::string("good.example\0.evil", 18), ""},
                       .addresses = {std::string("\x7f\0\0\1", 4), "12345", ""},
                       .extended = "serverAuth"});
  const auto planner = trust->Verify(pem, "", Use::kServer, kNow);
  REQUIRE(planner.status() == absl::OkStatus());
  CHECK(planner->hosts.size() == 4);  // addresses of 5 and of no bytes are none
  CHECK(CheckHost(*planner, "127.0.0.1").ok());
  for (const char* host : {"x.example", "good.example", "evil", "", "127.0.0.2"}) {
    INFO(host);
    CHECK_FALSE(CheckHost(*planner, host).ok());
  }
}

TEST_CASE("a certificate is for what it was made for") {
  Signer a;
  const auto trust = Believe(a.Ca(), "");
  Crafted planner{.uris = {"warpsmith://planner/p"}};
  CHECK_THAT(Verify(*trust, Craft(a, planner), Use::kServer), Contains("not for this use"));
  planner.extended = "serverAuth";
  CHECK(Verify(*trust, Craft(a, planner), Use::kServer) == "");
  CHECK_THAT(Verify(*trust, Craft(a, planner), Use::kClient), Contains("not for this use"));
  Crafted worker{.uris = {"warpsmith://worker/w"}, .usage = "keyCertSign"};
  CHECK_FALSE(Verify(*trust, Craft(a, worker)) == "");
  worker.usage = "digitalSignature";
  worker.from = kNow + kDay;
  CHECK_THAT(Verify(*trust, Craft(a, worker)), Contains("is the clock"));
  // No such certificate is an authority's, whatever --tls-ca says.
  worker.from = kNow - kDay;
  CHECK_FALSE(Trust::Make(Craft(a, worker), "").ok());
  CHECK_FALSE(Trust::Make("", "").ok());
}

TEST_CASE("weak keys and signatures are refused") {
  Signer a;
  const auto trust = Believe(a.Ca(), "");
  Crafted worker{.uris = {"warpsmith://worker/w"}};
  worker.digest = EVP_sha1();
  CHECK_THAT(Verify(*trust, Craft(a, worker)), Contains("too weak"));
  worker.digest = EVP_sha256();
  const KeyPtr small(EVP_RSA_gen(1024)), good(EVP_RSA_gen(2048));
  worker.key = small.get();
  CHECK_THAT(Verify(*trust, Craft(a, worker)), Contains("too weak"));
  worker.key = good.get();
  CHECK(Verify(*trust, Craft(a, worker)) == "");
}

TEST_CASE("what a certificate says is said in few words") {
  Signer a, other;
  const auto trust = Believe(a.Ca(), "");
  for (const int bytes : {40, 3'000, 10'000}) {
    Crafted worker{.uris = {"warpsmith://worker/w"}};
    worker.serial_bytes = bytes;
    const std::string refused = Verify(*trust, Craft(other, worker));
    CHECK(refused.size() < 300);
    CHECK_THAT(refused, Contains("has not made it"));
  }
}

}  // namespace
}  // namespace warpsmith::security
