#include "common/http/server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/http/compress.h"
#include "common/rpc/address.h"

namespace warpsmith::http {
namespace {

using security::Guard;
using security::Identity;

constexpr absl::Duration kBetweenRefreshs = absl::Seconds(1);

template <typename T, void (*Free)(T*)>
struct Freeing {
  void operator()(T* object) const { Free(object); }
};
using Bio = std::unique_ptr<BIO, Freeing<BIO, BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, Freeing<X509, X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freeing<EVP_PKEY, EVP_PKEY_free>>;

// ---- TLS ---------------------------------------------------------------------------------------

// Whose certificate is used, and believed.
struct Current {
  const std::shared_ptr<Guard> guard;
  const bool refresh;
  absl::Mutex mutex;
  base::Instant refreshed ABSL_GUARDED_BY(mutex) = base::Instant::InfinitePast();

  std::shared_ptr<const Identity> Get() {
    if (refresh) {
      absl::MutexLock lock(&mutex);
      if (base::Now() - refreshed > kBetweenRefreshs) {
        guard->Refresh();
        refreshed = base::Now();
      }
    }
    return guard->identity();
  }
};

// Called in each handshake: the certificate is the one of now.
int UseIdentity(SSL* ssl, void* current) {
  const std::shared_ptr<const Identity> identity = static_cast<Current*>(current)->Get();
  if (identity == nullptr) return 0;
  const Bio cert(BIO_new_mem_buf(identity->cert_pem.data(), identity->cert_pem.size()));
  const Bio key(BIO_new_mem_buf(identity->key_pem.data(), identity->key_pem.size()));
  const X509Ptr own(PEM_read_bio_X509(cert.get(), nullptr, nullptr, nullptr));
  const KeyPtr secret(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  if (own == nullptr || secret == nullptr) return 0;
  if (SSL_use_certificate(ssl, own.get()) != 1 || SSL_use_PrivateKey(ssl, secret.get()) != 1) {
    return 0;
  }
  SSL_clear_chain_certs(ssl);
  while (const X509Ptr above{PEM_read_bio_X509(cert.get(), nullptr, nullptr, nullptr)}) {
    if (SSL_add1_chain_cert(ssl, above.get()) != 1) return 0;
  }
  ERR_clear_error();  // the file's end is told as an error
  return 1;
}

// Whoever it is may shake hands; the guard decides of each call.
int AcceptAnybody(int, X509_STORE_CTX*) { return 1; }

bool SetUp(SSL_CTX& context, Current* current) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, &AcceptAnybody);
  SSL_CTX_set_cert_cb(&context, &UseIdentity, current);
  return true;
}

std::string PemOf(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (certificate == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) return "";
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string ChainOf(const SSL* ssl) {
  std::string pem;
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(ssl);
  for (int i = 0; i < sk_X509_num(chain); ++i) pem += PemOf(sk_X509_value(chain, i));
  return pem;
}

// ---- calls -------------------------------------------------------------------------------------

// What a call brings to say who makes it; kept, since a call may go on for long.
struct Papers {
  explicit Papers(const httplib::Request& request)
      : authorization(request.get_header_value("Authorization")) {
    if (request.ssl == nullptr) return;
    const X509Ptr peer(SSL_get1_peer_certificate(request.ssl));
    certificate = PemOf(peer.get());
    chain = ChainOf(request.ssl);
  }
  security::Proof proof() const {
    return {.certificate_pem = certificate, .chain_pem = chain, .authorization = authorization};
  }
  std::string authorization, certificate, chain;
};

void Refuse(const absl::Status& status, httplib::Response& response) {
  const bool unknown = absl::IsUnauthenticated(status);
  response.status = unknown ? 401 : absl::IsPermissionDenied(status) ? 403 : 503;
  if (unknown) response.set_header("WWW-Authenticate", "Bearer");
  response.set_content(absl::StrCat(std::string(status.message()), "\n"),
                       "text/plain; charset=utf-8");
}

// Why a change is not made for who asks so; OK: it may be.
absl::Status CheckChange(const httplib::Request& request, const security::Caller& caller,
                         bool secured) {
  if (!absl::StartsWith(request.get_header_value("Content-Type"), "application/json")) {
    return absl::PermissionDeniedError("what changes something has a body of application/json");
  }
  const std::string origin = request.get_header_value("Origin");
  const std::string own =
      absl::StrCat(secured ? "https://" : "http://", request.get_header_value("Host"));
  if (!origin.empty() && origin != own) {
    return absl::PermissionDeniedError("a page of another host changes nothing here");
  }
  if (secured && !caller.by_token) {
    return absl::PermissionDeniedError(
        "a change by HTTP is made with a token (Authorization: Bearer TOKEN): a browser brings a "
        "certificate with whatever it is told to ask");
  }
  return absl::OkStatus();
}

// Content of a known length, so that httplib does not compress it once more, which with brotli
// would take seconds.
void SetBody(const httplib::Request& request, const Reply& reply, httplib::Response& response) {
  std::string body = reply.body;
  response.set_header("Vary", "Accept-Encoding");
  if (body.size() >= kMinCompressed && TakesGzip(request.get_header_value("Accept-Encoding"))) {
    if (std::string packed = Gzip(body); !packed.empty()) {
      response.set_header("Content-Encoding", "gzip");
      body = std::move(packed);
    }
  }
  if (body.empty()) return response.set_content("", reply.type);
  const size_t size = body.size();
  response.set_content_provider(
      size, reply.type,
      [body = std::move(body)](size_t offset, size_t length, httplib::DataSink& sink) {
        return sink.write(body.data() + offset, std::min(length, body.size() - offset));
      });
}

// A tenth of the time that a normal thread gets beside it.
constexpr int kLowNice = 10;

// "HOST" or "HOST:PORT".
bool IsLoopback(absl::string_view host) {
  if (const size_t colon = host.rfind(':'); colon != host.npos && host.back() != ']') {
    host = host.substr(0, colon);
  }
  in_addr address = {};
  const bool numbers = inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
  return host == "localhost" || host == "[::1]" || (numbers && absl::StartsWith(host, "127."));
}

struct HostPort {
  std::string host;
  int port = 0;
};
absl::StatusOr<HostPort> Parse(const std::string& listen) {
  HostPort parsed;
  const size_t colon = listen.rfind(':');
  if (absl::StartsWith(listen, "unix:") || colon == listen.npos ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &parsed.port)) {
    return absl::InvalidArgumentError(absl::StrCat("'", listen, "': HTTP listens on HOST:PORT"));
  }
  parsed.host = listen.substr(0, colon);
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  return parsed;
}

// Threads that answer. No more connections are accepted while so many wait for one: what is not
// accepted waits in the kernel, and takes no file of this process.
class Calls : public httplib::TaskQueue {
 public:
  Calls(int threads, const httplib::Server& server) : server_(server), pool_(threads) {}
  void enqueue(std::function<void()> call) override {
    {
      absl::MutexLock lock(&mutex_);
      const auto room = [this] { return waiting_ < kMaxWaiting; };
      while (!mutex_.AwaitWithTimeout(absl::Condition(&room), kLookEvery)) {
        if (!server_.is_running()) break;
      }
      ++waiting_;
    }
    pool_.enqueue([this, call = std::move(call)] {
      {
        absl::MutexLock lock(&mutex_);
        --waiting_;
      }
      call();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  static constexpr int kMaxWaiting = 128;
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
  const httplib::Server& server_;
  absl::Mutex mutex_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  httplib::ThreadPool pool_;
};

}  // namespace

class Server::Listening {
 public:
  Listening(const Options& options, std::vector<Route> routes)
      : options_(options),
        guard_(options.guard),
        current_{options.guard, options.refresh},
        routes_(std::move(routes)) {
    if (guard_->secured()) {
      server_ = std::make_unique<httplib::SSLServer>(
          [this](SSL_CTX& context) { return SetUp(context, &current_); });
    } else {
      server_ = std::make_unique<httplib::Server>();
    }
    server_->new_task_queue = [this, calls = options.calls] { return new Calls(calls, *server_); };
    // httplib leaves the body of what was refused before its route unread, and would take it for
    // the next request: of another page's, where no token says who asks.
    if (!guard_->secured()) server_->set_keep_alive_max_count(1);
    server_->set_keep_alive_timeout(options.idle_seconds);
    server_->set_read_timeout(kIdleSeconds);
    server_->set_write_timeout(kIdleSeconds);
    server_->set_payload_max_length(kMaxRequestBytes);
    server_->set_default_headers({options.headers.begin(), options.headers.end()});
    // Not SO_REUSEPORT, by which two processes may listen on one port.
    server_->set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_->set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return Check(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                          : httplib::Server::HandlerResponse::Handled;
        });
    for (const Route& route : routes_) {
      const auto handler = [this, &route](const httplib::Request& request,
                                          httplib::Response& response) {
        Handle(route, request, response);
      };
      // httplib's paths are regular expressions.
      const std::string path = absl::StrReplaceAll(route.path, {{".", "\\."}});
      route.post ? server_->Post(path, handler) : server_->Get(path, handler);
    }
  }

  absl::Status Listen(const std::string& listen) {
    const absl::StatusOr<HostPort> at = Parse(listen);
    if (!at.ok()) return at.status();
    if (!server_->is_valid()) return absl::InternalError("OpenSSL makes no context for TLS");
    int port = at->port;
    if (port == 0) {
      port = server_->bind_to_any_port(at->host);
    } else if (!server_->bind_to_port(at->host, port)) {
      port = -1;
    }
    if (port <= 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", listen, ": is another process there? Port 0 picks a free one"));
    }
    address_ = rpc::Reachable(absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port));
    thread_ = std::thread([this] {
      // The threads that answer are made by this one, and are as nice. Where it is refused they
      // have their share.
      if (options_.low_priority) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowNice);
      server_->listen_after_bind();
      ended_ = true;
    });
    return absl::OkStatus();
  }

  ~Listening() { Stop(); }
  void Stop() {
    if (!thread_.joinable()) return;
    // One that does not listen yet would not hear of it.
    while (!server_->is_running() && !ended_) std::this_thread::yield();
    server_->stop();
    thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  // False: the response says why not.
  bool Check(const httplib::Request& request, httplib::Response& response) const {
    if (!guard_->secured() && !IsLoopback(request.get_header_value("Host"))) {
      Refuse(absl::PermissionDeniedError("without TLS this is answered to callers of localhost"),
             response);
      return false;
    }
    if (request.method == "GET" || request.method == "HEAD") return true;
    const bool posts = std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) {
      return route.post && route.path == request.path;
    });
    if (posts && request.method == "POST") return true;
    response.status = 405;
    response.set_header("Allow", posts ? "POST" : "GET, HEAD");
    return false;
  }

  std::string MethodOf(const Route& route) const {
    return route.method.empty() ? absl::StrCat(options_.methods, route.path) : route.method;
  }

  void Handle(const Route& route, const httplib::Request& request, httplib::Response& response) {
    const Papers papers(request);
    const absl::StatusOr<security::Caller> caller =
        guard_->Admit(options_.listener, MethodOf(route), papers.proof());
    if (!caller.ok()) return Refuse(caller.status(), response);
    if (route.post) {
      const absl::Status may = CheckChange(request, *caller, guard_->secured());
      if (!may.ok()) return Refuse(may, response);
    }
    const Reply reply =
        route.answer({{request.params.begin(), request.params.end()}, request.body, *caller});
    response.status = reply.status;
    if (reply.next == nullptr) return SetBody(request, reply, response);
    response.set_chunked_content_provider(
        reply.type, [this, papers, method = MethodOf(route), next = reply.next](
                        size_t, httplib::DataSink& sink) {
          if (!sink.is_writable()) return false;
          // Tokens and certificates end.
          const bool may = guard_->Admit(options_.listener, method, papers.proof()).ok();
          const std::optional<std::string> piece = may ? next() : std::nullopt;
          if (!piece.has_value()) {
            sink.done();
            return true;
          }
          return piece->empty() || sink.write(piece->data(), piece->size());
        });
  }

  const Options options_;
  const std::shared_ptr<Guard> guard_;
  Current current_;
  const std::vector<Route> routes_;
  std::unique_ptr<httplib::Server> server_;
  std::string address_;
  std::atomic<bool> ended_ = false;  // it listens no more
  std::thread thread_;
};

Server::Server(std::unique_ptr<Listening> listening) : listening_(std::move(listening)) {}
Server::~Server() = default;

std::string Request::Parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? "" : found->second;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Options& options,
                                                      std::vector<Route> routes) {
  absl::Status valid = rpc::ValidateListenAddress(options.listen, options.guard->secured());
  if (!valid.ok()) return valid;
  auto listening = std::make_unique<Listening>(options, std::move(routes));
  if (absl::Status status = listening->Listen(options.listen); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(listening)));
}

const std::string& Server::address() const { return listening_->address(); }
void Server::Stop() { listening_->Stop(); }

}  // namespace warpsmith::http
