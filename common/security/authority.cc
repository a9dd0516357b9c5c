#include "common/security/authority.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/security/file_lock.h"
#include "common/security/x509.h"

namespace warpsmith::security {
namespace {

constexpr char kCaCertificate[] = "ca.crt", kCaKey[] = "ca.key", kCrl[] = "crl.pem",
               kPair[] = ".pem";
constexpr int kSerialBytes = 16;

absl::Status Failed(const char* what) {
  return absl::InternalError(absl::StrCat("OpenSSL cannot ", what, ": ", LastError()));
}

// Held while the folder is changed.
absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& folder) {
  return FileLock::Take(folder + "/.lock");
}

absl::Status CheckFolder(const std::string& folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot inspect '", folder, "'"));
  }
  if ((info.st_mode & 0077) != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("'%s' is an authority's folder that others can read or write (mode %04o): "
                        "`chmod 700 %s`",
                        folder, info.st_mode & 07777, folder));
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", folder, "' belongs to another user: who makes certificates is to own it"));
  }
  return absl::OkStatus();
}

struct Ca {
  X509Ptr certificate;
  KeyPtr key;
};

absl::StatusOr<Ca> Load(const Authority& authority) {
  const absl::StatusOr<std::string> certificate = base::ReadFile(authority.Path(kCaCertificate));
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<std::string> key = base::ReadPrivateFile(authority.Path(kCaKey));
  if (!key.ok()) return key.status();
  auto parsed = ParseCertificates(*certificate, authority.Path(kCaCertificate));
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<KeyPtr> parsed_key = ParseKey(*key, authority.Path(kCaKey));
  if (!parsed_key.ok()) return parsed_key.status();
  if (X509_check_private_key(parsed->front().get(), parsed_key->get()) != 1) {
    LastError();
    return absl::FailedPreconditionError(absl::StrCat(authority.Path(kCaKey), " is not the key of ",
                                                      authority.Path(kCaCertificate),
                                                      ": bring both back from the same copy"));
  }
  return Ca{std::move(parsed->front()), *std::move(parsed_key)};
}

bool SetTime(ASN1_TIME* field, absl::Time time) {
  return ASN1_TIME_set(field, absl::ToTimeT(time)) != nullptr;
}

// Later ones are higher, also within a second, and what follows cannot be guessed.
bool SetSerial(ASN1_INTEGER* field) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  const auto date = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(date >> (56 - 8 * i));
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3f) | 0x40);  // positive, of one length
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  const bool ok = number != nullptr && BN_to_ASN1_INTEGER(number, field) != nullptr;
  BN_free(number);
  return ok;
}

// `value` in the syntax of OpenSSL's configuration (x509v3_config(5)).
bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return false;
  const bool ok = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return ok;
}

// A certificate with everything that all have; not signed.
absl::StatusOr<X509Ptr> Begin(const std::string& common_name, absl::Duration life, EVP_PKEY* key,
                              absl::Time now) {
  X509Ptr certificate(X509_new());
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.data());
  const bool ok = X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                  SetSerial(X509_get_serialNumber(certificate.get())) &&
                  SetTime(X509_getm_notBefore(certificate.get()), now - kClockSkew) &&
                  SetTime(X509_getm_notAfter(certificate.get()), now + life) &&
                  X509_NAME_add_entry_by_NID(
                      subject, NID_commonName, MBSTRING_UTF8, text,
                      static_cast<int>(std::min<size_t>(common_name.size(), 64)), -1, 0) == 1 &&
                  X509_set_pubkey(certificate.get(), key) == 1;
  if (!ok) return Failed("make a certificate");
  return certificate;
}

absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
      X509_sign(certificate, key, EVP_sha256()) > 0) {
    return absl::OkStatus();
  }
  return Failed("sign a certificate");
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

bool IsHost(const std::string& host) {
  return IsAddress(host) ||
         (!host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
         }));
}

// A planner serves, and a worker that is given host names: its metrics. Clients take a planner
// alone for a planner, by its role.
bool Serves(const Wanted& wanted) {
  return wanted.name.role == Role::kPlanner ||
         (wanted.name.role == Role::kWorker && !wanted.hosts.empty());
}

// Those that it gets.
std::vector<std::string> HostsOf(const Wanted& wanted) {
  std::vector<std::string> hosts;
  if (!Serves(wanted)) return hosts;
  hosts.assign(std::begin(kLoopback), std::end(kLoopback));
  for (const std::string& host : wanted.hosts) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

std::string AlternativeNames(const Wanted& wanted) {
  std::string names = absl::StrCat("URI:", UriOf(wanted.name));
  for (const std::string& host : HostsOf(wanted)) {
    absl::StrAppend(&names, ",", IsAddress(host) ? "IP:" : "DNS:", host);
  }
  return names;
}

absl::Status CheckWanted(const Wanted& wanted) {
  if (absl::Status status = CheckName(wanted.name.name); !status.ok()) return status;
  if (wanted.name.name == "ca" || wanted.name.name == "crl") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", wanted.name.name, "' names a file of the authority: choose another"));
  }
  const absl::StatusOr<Role> role = ParseRole(NameOf(wanted.name.role));
  if (!role.ok()) return role.status();
  if (wanted.life <= absl::ZeroDuration() || wanted.life > kAuthorityLife) {
    return absl::InvalidArgumentError("a certificate is good for 1 day to 10 years");
  }
  if (!Serves(wanted) && !wanted.hosts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", wanted.name.name, "' does not serve, so it has no host names: they are ",
                     "for planners and workers"));
  }
  if (HostsOf(wanted).size() > kMaxHosts) {
    return absl::InvalidArgumentError(absl::StrCat(
        HostsOf(wanted).size(), " host names, with those of loopback: at most ", kMaxHosts));
  }
  for (const std::string& host : wanted.hosts) {
    if (!IsHost(host)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", host, "' is neither a host name nor an address"));
    }
  }
  return absl::OkStatus();
}

Issued Describe(const X509* certificate, const Name& name) {
  return {.name = name,
          .serial = SerialOf(certificate),
          .hosts = HostsIn(certificate),
          .not_before = TimeOf(X509_get0_notBefore(certificate)),
          .not_after = TimeOf(X509_get0_notAfter(certificate))};
}

bool IsRevoked(X509_CRL* crl, X509* certificate) {
  X509_REVOKED* entry = nullptr;
  return X509_CRL_get0_by_cert(crl, &entry, certificate) == 1;
}

// `crl` (none: a new one) with the certificates, signed by the authority.
absl::Status WriteCrl(const Authority& authority, const Ca& ca, X509CrlPtr crl,
                      const std::vector<X509*>& revoked, absl::Time now) {
  if (crl == nullptr) {
    crl.reset(X509_CRL_new());
    X509_CRL_set_version(crl.get(), X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(ca.certificate.get()));
  }
  using TimePtr = std::unique_ptr<ASN1_TIME, Freed<ASN1_TIME_free>>;
  const TimePtr date(ASN1_TIME_set(nullptr, absl::ToTimeT(now)));
  // A list that expires, or is too new for a clock that is behind, would shut a fleet out: it is
  // good for as long as its authority.
  bool ok = date != nullptr &&
            X509_CRL_set1_lastUpdate(crl.get(), X509_get0_notBefore(ca.certificate.get())) == 1 &&
            X509_CRL_set1_nextUpdate(crl.get(), X509_get0_notAfter(ca.certificate.get())) == 1;
  for (X509* certificate : revoked) {
    X509_REVOKED* entry = X509_REVOKED_new();
    ok = ok && entry != nullptr &&
         X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate)) == 1 &&
         X509_REVOKED_set_revocationDate(entry, date.get()) == 1 &&
         X509_CRL_add0_revoked(crl.get(), entry) == 1;
  }
  ok = ok && X509_CRL_sort(crl.get()) == 1 &&
       X509_CRL_sign(crl.get(), ca.key.get(), EVP_sha256()) > 0;
  if (!ok) return Failed("sign the list of revoked certificates");
  return base::WriteFileAtomically(authority.Path(kCrl), PemOf(crl.get()));
}

absl::StatusOr<X509CrlPtr> ReadCrl(const Authority& authority) {
  const absl::StatusOr<std::string> text = base::ReadFile(authority.Path(kCrl));
  if (!text.ok()) return text.status();
  auto lists = ParseCrls(*text, authority.Path(kCrl));
  if (!lists.ok()) return lists.status();
  return std::move(lists->front());
}

struct Kept {
  X509Ptr certificate;
  Name name;
};

// Every certificate that was issued.
absl::StatusOr<std::vector<Kept>> ReadIssued(const Authority& authority) {
  std::vector<Kept> all;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(authority.Path("issued"), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (entry->path().extension() != ".crt") continue;
    const absl::StatusOr<std::string> text = base::ReadFile(path);
    if (!text.ok()) return text.status();
    auto parsed = ParseCertificates(*text, path);
    if (!parsed.ok()) return parsed.status();
    const absl::StatusOr<Name> name = NameIn(parsed->front().get());
    if (!name.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", name.status().message()));
    }
    all.push_back({std::move(parsed->front()), *name});
  }
  if (error) {
    return absl::InternalError(
        absl::StrCat("cannot list ", authority.Path("issued"), ": ", error.message()));
  }
  return all;
}

// With its folder of certificates; what it made is its owner's alone.
absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path parent =
      std::filesystem::path(folder + "/").parent_path().parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  for (const std::string& each : {folder, folder + "/issued"}) {
    if (error || mkdir(each.c_str(), 0700) == 0 || errno == EEXIST) continue;
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  return CheckFolder(folder);
}

}  // namespace

absl::Status Authority::Exists() const {
  if (access(Path(kCaCertificate).c_str(), F_OK) == 0) return CheckFolder(folder_);
  return absl::NotFoundError(
      absl::StrCat("there is no authority in ", folder_, ": make one with `warpsmith certs init`"));
}

absl::Status Authority::Init(const std::string& name, absl::Duration life, absl::Time now) {
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  if (life <= absl::ZeroDuration() || life > kMaxAuthorityLife) {
    return absl::InvalidArgumentError("an authority is good for 1 day to 30 years");
  }
  if (absl::Status status = MakeFolder(folder_); !status.ok()) return status;
  const auto lock = Lock(folder_);
  if (!lock.ok()) return lock.status();
  if (access(Path(kCaCertificate).c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat(Path(kCaCertificate), " is there already: an authority is made once, and all ",
                     "certificates of another would be refused"));
  }
  // ca.crt is written last: this is what is left of a first `init` that was ended, or of a loss.
  if (access(Path(kCaKey).c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat(Path(kCaKey), " is there without ", kCaCertificate,
                     ": bring that back from a copy; if there never was one, remove ", kCaKey));
  }
  Ca ca;
  ca.key.reset(EVP_EC_gen("P-256"));
  if (ca.key == nullptr) return Failed("make a key");
  auto begun = Begin(name, life, ca.key.get(), now);
  if (!begun.ok()) return begun.status();
  ca.certificate = *std::move(begun);
  X509* const own = ca.certificate.get();
  if (!AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(own, own, NID_subject_key_identifier, "hash")) {
    return Failed("make the authority's certificate");
  }
  if (absl::Status status = Sign(own, own, ca.key.get()); !status.ok()) return status;
  absl::Status status = base::WritePrivateFile(Path(kCaKey), PemOf(ca.key.get()));
  if (status.ok()) status = WriteCrl(*this, ca, nullptr, {}, now);
  if (status.ok()) status = base::WriteFileAtomically(Path(kCaCertificate), PemOf(own));
  return status;
}

absl::StatusOr<Issued> Authority::Make(const Wanted& wanted, absl::Time now) {
  const absl::StatusOr<Ca> ca = Load(*this);
  if (!ca.ok()) return ca.status();
  X509* const issuer = ca->certificate.get();
  if (now + wanted.life > TimeOf(X509_get0_notAfter(issuer))) {
    return absl::InvalidArgumentError(absl::StrCat("the authority itself is good until ",
                                                   Date(TimeOf(X509_get0_notAfter(issuer))),
                                                   ": ask for fewer days"));
  }
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("make a key");
  auto begun = Begin(wanted.name.name, wanted.life, key.get(), now);
  if (!begun.ok()) return begun.status();
  X509* const made = begun->get();
  if (!AddExtension(made, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(made, issuer, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(made, issuer, NID_ext_key_usage,
                    Serves(wanted) ? "serverAuth,clientAuth" : "clientAuth") ||
      !AddExtension(made, issuer, NID_subject_key_identifier, "hash") ||
      !AddExtension(made, issuer, NID_authority_key_identifier, "keyid") ||
      !AddExtension(made, issuer, NID_subject_alt_name, AlternativeNames(wanted))) {
    return Failed("make a certificate");
  }
  if (absl::Status status = Sign(made, issuer, ca->key.get()); !status.ok()) return status;
  Issued issued = Describe(made, wanted.name);
  issued.certificate = issued.key = Path(wanted.name.name + kPair);
  // What is not kept could not be revoked, so that comes first.
  const std::string pem = PemOf(made);
  absl::Status status =
      base::WriteFileAtomically(Path(absl::StrCat("issued/", issued.serial, ".crt")), pem);
  if (status.ok()) status = base::WritePrivateFile(issued.key, pem + PemOf(key.get()));
  if (!status.ok()) return status;
  return issued;
}

absl::StatusOr<Issued> Authority::Issue(const Wanted& wanted, absl::Time now) {
  if (absl::Status status = CheckWanted(wanted); !status.ok()) return status;
  if (absl::Status status = Exists(); !status.ok()) return status;
  const auto lock = Lock(folder_);
  if (!lock.ok()) return lock.status();
  const absl::StatusOr<std::vector<Issued>> all = List();
  if (!all.ok()) return all.status();
  if (all->size() >= kMaxIssued) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this authority has issued ", kMaxIssued, " certificates, its limit"));
  }
  for (const Issued& before : *all) {
    if (before.name.name != wanted.name.name || before.revoked) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "'", wanted.name.name, "' has a certificate, as ", NameOf(before.name.role).data(),
        ": `warpsmith certs rotate ", wanted.name.name, "` renews it, and `certs revoke` ends it"));
  }
  for (const Issued& other : *all) {
    if (wanted.name.role != Role::kWorker || other.name.role != Role::kWorker || other.revoked) {
      continue;
    }
    if (!IsWorkerOf(other.name.name, wanted.name.name) &&
        !IsWorkerOf(wanted.name.name, other.name.name)) {
      continue;
    }
    return absl::AlreadyExistsError(
        absl::StrCat("'", wanted.name.name, "' and '", other.name.name, "', which there is, would ",
                     "be names of the same worker: choose another, or revoke that first"));
  }
  return Make(wanted, now);
}

absl::StatusOr<Issued> Authority::Rotate(const std::string& name, absl::Duration life,
                                         absl::Time now,
                                         const std::vector<std::string>& more_hosts) {
  if (absl::Status status = Exists(); !status.ok()) return status;
  const auto lock = Lock(folder_);
  if (!lock.ok()) return lock.status();
  const absl::StatusOr<std::vector<Issued>> all = List();
  if (!all.ok()) return all.status();
  const auto last = std::find_if(all->begin(), all->end(),
                                 [&](const Issued& issued) { return issued.name.name == name; });
  if (last == all->end()) {
    return absl::NotFoundError(
        absl::StrCat("no certificate was issued for '", name, "': `warpsmith certs issue` does"));
  }
  if (last->revoked) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", name, "' is revoked: `warpsmith certs issue ", name, "` lets it in again"));
  }
  Wanted wanted{last->name, last->hosts, life};
  for (const std::string& host : more_hosts) {
    if (std::find(wanted.hosts.begin(), wanted.hosts.end(), host) == wanted.hosts.end()) {
      wanted.hosts.push_back(host);
    }
  }
  if (absl::Status status = CheckWanted(wanted); !status.ok()) return status;
  return Make(wanted, now);
}

absl::StatusOr<int> Authority::Revoke(const std::string& name, absl::Time now) {
  if (absl::Status status = Exists(); !status.ok()) return status;
  const auto lock = Lock(folder_);
  if (!lock.ok()) return lock.status();
  const absl::StatusOr<Ca> ca = Load(*this);
  if (!ca.ok()) return ca.status();
  absl::StatusOr<X509CrlPtr> crl = ReadCrl(*this);
  if (!crl.ok()) return crl.status();
  const absl::StatusOr<std::vector<Kept>> all = ReadIssued(*this);
  if (!all.ok()) return all.status();
  std::vector<X509*> revoked;
  bool known = false;
  for (const Kept& kept : *all) {
    if (kept.name.name != name) continue;
    known = true;
    if (!IsRevoked(crl->get(), kept.certificate.get())) revoked.push_back(kept.certificate.get());
  }
  if (!known)
    return absl::NotFoundError(absl::StrCat("no certificate was issued for '", name, "'"));
  if (!revoked.empty()) {
    absl::Status status = WriteCrl(*this, *ca, *std::move(crl), revoked, now);
    if (!status.ok()) return status;
  }
  return static_cast<int>(revoked.size());
}

absl::StatusOr<std::vector<Issued>> Authority::List() const {
  if (absl::Status status = Exists(); !status.ok()) return status;
  const absl::StatusOr<X509CrlPtr> crl = ReadCrl(*this);
  if (!crl.ok()) return crl.status();
  const absl::StatusOr<std::vector<Kept>> all = ReadIssued(*this);
  if (!all.ok()) return all.status();
  std::map<std::string, std::string> in_file;  // serial by name
  std::vector<Issued> list;
  for (const Kept& kept : *all) {
    Issued& issued = list.emplace_back(Describe(kept.certificate.get(), kept.name));
    issued.revoked = IsRevoked(crl->get(), kept.certificate.get());
    const std::string path = Path(kept.name.name + kPair);
    auto [serial, is_new] = in_file.try_emplace(kept.name.name);
    if (is_new) {
      const auto text = base::ReadFile(path);
      const auto parsed = ParseCertificates(text.ok() ? *text : "", path);
      if (parsed.ok()) serial->second = SerialOf(parsed->front().get());
    }
    if (issued.serial == serial->second) issued.certificate = issued.key = path;
  }
  // By when they were made, and not by which file there is: that may have been moved away. Of one
  // second, one that is revoked was made before one that is not.
  std::sort(list.begin(), list.end(), [](const Issued& a, const Issued& b) {
    if (a.name.name != b.name.name) return a.name.name < b.name.name;
    if (a.not_before != b.not_before) return a.not_before > b.not_before;
    return a.serial > b.serial;
  });
  return list;
}

}  // namespace warpsmith::security
