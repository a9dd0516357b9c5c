#include "common/security/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status.h"

namespace warpsmith::security {
namespace {

constexpr std::string_view kPath = ":path", kAuthorization = "authorization";
// For a call that says twice who makes it: no token is like that.
constexpr std::string_view kTwice = "(twice)";

std::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

std::string_view Property(const grpc_auth_context* context, const char* name) {
  grpc_auth_property_iterator all = grpc_auth_context_find_properties_by_name(context, name);
  const grpc_auth_property* property = grpc_auth_property_iterator_next(&all);
  if (property == nullptr) return "";
  return {property->value, property->value_length};
}

// gRPC 1.51's C++ has either certificates that change, from files that it reads itself, or a look
// at each call; its C has both, and lets us refuse files that do not fit each other.
class GuardedCredentials final : public grpc::ServerCredentials {
 public:
  GuardedCredentials(Listener listener, std::shared_ptr<Guard> guard) {
    auto* const admission = new Admission{listener, std::move(guard), nullptr};
    if (admission->guard->secured()) {
      // Certificates are asked for and not verified here: the guard does, at each call.
      credentials_ = grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY, &Fetch, admission));
    } else {
      credentials_ = grpc_insecure_server_credentials_create();
    }
    grpc_server_credentials_set_auth_metadata_processor(credentials_,
                                                        {&Process, &Destroy, admission});
  }
  ~GuardedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  // Of gRPC's credentials, which a server keeps for longer than this object.
  struct Admission {
    const Listener listener;
    const std::shared_ptr<Guard> guard;
    std::shared_ptr<const Identity> given;  // to gRPC, by the last Fetch
  };
  static void Destroy(void* admission) { delete static_cast<Admission*>(admission); }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // Before each handshake; gRPC calls it with a lock of its own.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* to, grpc_ssl_server_certificate_config** config) {
    auto& admission = *static_cast<Admission*>(to);
    std::shared_ptr<const Identity> identity = admission.guard->identity();
    if (identity == admission.given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{identity->key_pem.c_str(), identity->cert_pem.c_str()};
    *config = grpc_ssl_server_certificate_config_create(identity->ca_pem.c_str(), &pair, 1);
    if (*config == nullptr) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    admission.given = std::move(identity);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  static void Process(void* to, grpc_auth_context* context, const grpc_metadata* metadata,
                      size_t count, grpc_process_auth_metadata_done_cb done, void* call) {
    auto& admission = *static_cast<Admission*>(to);
    Proof proof{.certificate_pem = Property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME),
                .chain_pem = Property(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME)};
    std::string_view method;
    for (size_t i = 0; i < count; ++i) {
      if (View(metadata[i].key) == kPath) method = View(metadata[i].value);
      if (View(metadata[i].key) != kAuthorization) continue;
      proof.authorization = proof.authorization.empty() ? View(metadata[i].value) : kTwice;
    }
    const grpc::Status status =
        rpc::ToGrpc(admission.guard->Admit(admission.listener, method, proof).status());
    done(call, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.error_code()),
         status.ok() ? nullptr : status.error_message().c_str());
  }

  grpc_server_credentials* credentials_ = nullptr;
};

// "[::1]:4000" -> "::1"
std::string HostOf(std::string target) {
  if (!target.empty() && target[0] == '[') {
    return target.substr(1, target.find(']') == target.npos ? target.npos : target.find(']') - 1);
  }
  if (std::count(target.begin(), target.end(), ':') == 1) target.resize(target.find(':'));
  return target;
}

class PlannerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  PlannerVerifier(std::shared_ptr<const Identity> identity, std::function<absl::Time()> date)
      : identity_(std::move(identity)), date_(std::move(date)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* status) override {
    *status = rpc::ToGrpc(Verdict(*request));
    return true;  // it is done
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  absl::Status Verdict(const grpc::experimental::TlsCustomVerificationCheckRequest& request) const {
    const auto verified = identity_->trust->Verify(
        View(request.peer_cert()), View(request.peer_cert_full_chain()), Use::kServer, date_());
    if (!verified.ok()) return verified.status();
    if (verified->name.role != Role::kPlanner) {
      return absl::UnauthenticatedError(
          absl::StrCat("who answers is ", UriOf(verified->name), ", and no planner"));
    }
    return CheckHost(*verified, HostOf(std::string(View(request.target_name()))));
  }

  const std::shared_ptr<const Identity> identity_;
  const std::function<absl::Time()> date_;
};

// Believes everybody.
class AnyVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest*,
              std::function<void(grpc::Status)>, grpc::Status*) override {
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(Listener listener,
                                                           std::shared_ptr<Guard> guard) {
  // There everybody may do all: nothing to ask at each call.
  if (!guard->secured() && listener == Listener::kAll) return grpc::InsecureServerCredentials();
  return std::make_shared<GuardedCredentials>(listener, std::move(guard));
}

absl::StatusOr<Caller> CallerOf(const grpc::ServerContextBase& context, Guard& guard) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  const auto property = [&](const char* name) -> std::string_view {
    if (peer == nullptr) return "";
    const std::vector<grpc::string_ref> values = peer->FindPropertyValues(name);
    return values.empty() ? "" : View(values.front());
  };
  const auto& metadata = context.client_metadata();
  const grpc::string_ref key(kAuthorization.data(), kAuthorization.size());
  const auto authorization = metadata.find(key);
  return guard.CallerOf({.certificate_pem = property(GRPC_X509_PEM_CERT_PROPERTY_NAME),
                         .chain_pem = property(GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME),
                         .authorization = authorization == metadata.end() ? ""
                                          : metadata.count(key) > 1       ? kTwice
                                                                    : View(authorization->second)});
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(
    std::shared_ptr<const Identity> identity, const std::string& token,
    std::function<absl::Time()> date) {
  using grpc::experimental::StaticDataCertificateProvider;
  grpc::experimental::TlsChannelCredentialsOptions options;
  std::vector<grpc::experimental::IdentityKeyCertPair> pairs;
  if (!identity->cert_pem.empty()) pairs.push_back({identity->key_pem, identity->cert_pem});
  options.set_certificate_provider(
      std::make_shared<StaticDataCertificateProvider>(identity->ca_pem, pairs));
  options.watch_root_certs();
  if (!pairs.empty()) options.watch_identity_key_cert_pairs();
  // The verifier does all that gRPC would, and says what is wrong.
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<PlannerVerifier>(std::move(identity),
                                                                               std::move(date)));
  auto credentials = grpc::experimental::TlsCredentials(options);
  if (token.empty()) return credentials;
  return grpc::CompositeChannelCredentials(credentials, grpc::AccessTokenCredentials(token));
}

std::shared_ptr<grpc::ChannelCredentials> UnverifiedChannelCredentials(
    std::shared_ptr<const Identity> identity) {
  using grpc::experimental::StaticDataCertificateProvider;
  grpc::experimental::TlsChannelCredentialsOptions options;
  // Roots that nobody asks: without any, gRPC looks for those of the machine, and does not connect
  // where there are none.
  options.set_certificate_provider(std::make_shared<StaticDataCertificateProvider>(
      identity->ca_pem, std::vector<grpc::experimental::IdentityKeyCertPair>()));
  options.watch_root_certs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<AnyVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace warpsmith::security
