#include "planner/web/page.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "planner/web/detail.h"
#include "planner/web/files.h"
#include "planner/web/rows.h"

namespace warpsmith::web {
namespace {

using http::Reply;
using http::Request;

constexpr char kJson[] = "application/json";
constexpr char kService[] = "/warpsmith.v1.PlannerService/";
constexpr const char* kChanges[] = {"SetTask", "CancelRun", "SetPriority", "HoldWorker",
                                    "ReleaseWorker"};
constexpr size_t kMaxId = 1'000;

// Nothing from anywhere else, nothing that stands in the page itself, and no text becomes markup.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string TypeOf(const std::string& path) {
  if (absl::EndsWith(path, ".js")) return "text/javascript; charset=utf-8";
  if (absl::EndsWith(path, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(path, ".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

Reply Refusal(const absl::Status& status) {
  return {.status = CodeOf(status), .body = std::string(status.message()) + "\n"};
}

Reply JsonOr(absl::StatusOr<std::string> json) {
  if (!json.ok()) return Refusal(json.status());
  return {.type = kJson, .body = *std::move(json)};
}

constexpr absl::Duration kLongestCall = absl::Seconds(30);

// Of a call of the planner, whose answer comes from a thread of its own; not for longer than this
// page is there, since a store that is away keeps answers.
template <typename R, typename Call>
absl::StatusOr<R> Await(const Published& published, Call call) {
  struct Answer {
    absl::Notification came;
    absl::StatusOr<R> reply = absl::UnknownError("not answered");
  };
  const auto answer = std::make_shared<Answer>();
  call([answer](absl::StatusOr<R> reply) {
    answer->reply = std::move(reply);
    answer->came.Notify();
  });
  const base::Instant deadline = base::Now() + kLongestCall;
  while (!answer->came.WaitForNotificationWithTimeout(absl::Milliseconds(500))) {
    if (published.closed() || base::Now() >= deadline) {
      return absl::UnavailableError("not answered in time; it may still be done");
    }
  }
  return std::move(answer->reply);
}

// A call that changes something: its message from the body, and its answer's as JSON.
template <typename Q, typename R, typename Call>
http::Route Change(const Published& published, const std::string& name, Call call) {
  const std::string path = kService + name;
  http::Route route(path, [&published, call](const Request& request) {
    Q message;
    const auto parsed = google::protobuf::util::JsonStringToMessage(request.body, &message);
    if (!parsed.ok()) {
      return Refusal(absl::InvalidArgumentError(absl::StrCat(
          "the body is no ", message.GetTypeName(),
          " as JSON: ", std::string(parsed.message().data(), parsed.message().size()))));
    }
    const absl::StatusOr<R> answer =
        Await<R>(published, [&](auto done) { call(request.caller, message, std::move(done)); });
    if (!answer.ok()) return Refusal(answer.status());
    std::string json;
    (void)google::protobuf::util::MessageToJsonString(*answer, &json);
    return Reply{.type = kJson, .body = json};
  });
  route.method = path;
  route.post = true;
  return route;
}

}  // namespace

// One that stays, while this lives.
class Page::Viewer {
 public:
  // Null: there are as many as may be.
  static std::shared_ptr<Viewer> Enter(Page* page) {
    if (++page->viewers_ > kMaxViewers) {
      --page->viewers_;
      return nullptr;
    }
    return std::shared_ptr<Viewer>(new Viewer(page));
  }
  ~Viewer() { --page_->viewers_; }

  // An event; "": nothing happened for a while.
  std::optional<std::string> Next(std::string& key) {
    if (page_->published_->closed()) return std::nullopt;
    const base::Instant now = base::Now();
    if (now - sent_ < kBetweenEvents) {
      page_->published_->AwaitClose(kBetweenEvents - (now - sent_));
      return "";
    }
    if (!page_->published_->Await(key, kBetweenEvents)) {
      if (base::Now() - sent_ < kHeartbeat) return "";
      sent_ = base::Now();
      return ":\n\n";
    }
    sent_ = base::Now();
    const Published::Update update = page_->published_->Since(key);
    key = update->key;
    return absl::StrCat("id: ", update->key, "\ndata: ", update->json, "\n\n");
  }

 private:
  explicit Viewer(Page* page) : page_(page) {}
  Page* const page_;
  base::Instant sent_ = base::Instant::InfinitePast();
};

Reply Page::You(const security::Caller& caller) const {
  nlohmann::json may = nlohmann::json::object();
  for (const char* name : kChanges) {
    const std::string method = std::string(kService) + name;
    if (!security::Check(caller, method, security::Listener::kPage).ok()) continue;
    if (caller.role != security::Role::kLocal && !caller.by_token) continue;
    may[name] = security::IsOwnOnly(caller, method) ? "own" : "all";
  }
  return {.type = kJson,
          .body = Text({{"role", std::string(security::NameOf(caller.role))},
                        {"name", caller.name},
                        {"token", caller.by_token},
                        {"leads", planner_->leads()},
                        {"may", may}})};
}

Reply Page::Events(const Request& request) {
  const std::shared_ptr<Viewer> viewer = Viewer::Enter(this);
  if (viewer == nullptr) {
    return {.status = 503,
            .body = absl::StrCat(kMaxViewers,
                                 " viewers are shown what happens as it does: ask for "
                                 "/state every few seconds\n")};
  }
  return {
      .type = "text/event-stream",
      .next = [viewer, key = request.Parameter("since")]() mutable { return viewer->Next(key); }};
}

Reply Page::Task(const std::string& id) {
  if (id.empty() || id.size() > kMaxId) {
    return Refusal(absl::InvalidArgumentError("say which: /task?id=ID"));
  }
  return JsonOr(tasks_.Get(id, [&]() -> Kept::Made {
    v1::GetTaskRequest request;
    request.set_task_id(id);
    request.set_with_trials(true);
    const auto reply = Await<v1::GetTaskReply>(
        *published_, [&](auto done) { planner_->GetTask(request, std::move(done)); });
    if (!reply.ok()) return reply.status();
    return DetailOf(*reply);
  }));
}

Reply Page::Board() {
  return JsonOr(boards_.Get("", [&]() -> Kept::Made {
    const auto reply = Await<v1::GetBoardReply>(
        *published_, [&](auto done) { planner_->GetBoard(std::move(done)); });
    if (!reply.ok()) return reply.status();
    return Text({{"markdown", reply->markdown()}, {"revision", reply->revision()}});
  }));
}

std::vector<http::Route> Page::Routes() {
  std::vector<http::Route> routes;
  for (const auto& [path, text] : PageFiles()) {
    const Reply file{.type = TypeOf(path), .body = text};
    http::Route& route =
        routes.emplace_back(path == "/page.html" ? "/" : path,
                            http::Route::Answer([file](const Request&) { return file; }));
    route.method = "/page/files";
  }
  const auto get = [&](const char* path, http::Route::Answer answer) {
    routes.emplace_back(path, std::move(answer));
  };
  get("/you", [this](const Request& request) { return You(request.caller); });
  get("/state", [this](const Request& request) {
    return Reply{.type = kJson, .body = published_->Since(request.Parameter("since"))->json};
  });
  get("/events", [this](const Request& request) { return Events(request); });
  get("/task", [this](const Request& request) { return Task(request.Parameter("id")); });
  get("/board", [this](const Request&) { return Board(); });
  routes.push_back(Change<v1::SetTaskRequest, v1::SetTaskReply>(
      *published_, "SetTask", [this](const auto& caller, const auto& message, auto done) {
        planner_->SetTask(caller, message, std::move(done));
      }));
  routes.push_back(Change<v1::CancelRunRequest, v1::CancelRunReply>(
      *published_, "CancelRun", [this](const auto& caller, const auto& message, auto done) {
        planner_->CancelRun(caller, message, std::move(done));
      }));
  routes.push_back(Change<v1::SetPriorityRequest, v1::SetPriorityReply>(
      *published_, "SetPriority", [this](const auto& caller, const auto& message, auto done) {
        planner_->SetPriority(caller, message, std::move(done));
      }));
  routes.push_back(Change<v1::HoldWorkerRequest, v1::HoldWorkerReply>(
      *published_, "HoldWorker", [this](const auto&, const auto& message, auto done) {
        planner_->HoldWorker(message, std::move(done));
      }));
  routes.push_back(Change<v1::ReleaseWorkerRequest, v1::ReleaseWorkerReply>(
      *published_, "ReleaseWorker", [this](const auto&, const auto& message, auto done) {
        planner_->ReleaseWorker(message, std::move(done));
      }));
  return routes;
}

absl::StatusOr<std::unique_ptr<Page>> Page::Start(const Options& options, planner::Planner* planner,
                                                  Published* published) {
  std::unique_ptr<Page> page(new Page(planner, published));
  auto server = http::Server::Start({.listen = options.listen,
                                     .guard = options.guard,
                                     .listener = security::Listener::kPage,
                                     .methods = "/page",
                                     .calls = kMaxViewers + http::kMaxCalls,
                                     .idle_seconds = 1,  // of many who poll, few may hold a thread
                                     .low_priority = true,
                                     .headers = {{"Content-Security-Policy", kPolicy},
                                                 {"X-Content-Type-Options", "nosniff"},
                                                 {"Referrer-Policy", "no-referrer"},
                                                 {"Cross-Origin-Opener-Policy", "same-origin"},
                                                 {"Cross-Origin-Resource-Policy", "same-origin"},
                                                 {"Cache-Control", "no-store"}}},
                                    page->Routes());
  if (!server.ok()) return server.status();
  page->server_ = *std::move(server);
  return page;
}

Page::~Page() {
  published_->Close();
  if (server_ != nullptr) server_->Stop();
}

}  // namespace warpsmith::web
