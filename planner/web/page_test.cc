#include "planner/web/page.h"

#include <httplib.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/security/authority.h"
#include "common/store/memory_store.h"
#include "planner/service/testing.h"
#include "planner/web/files.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::web {
namespace {

using nlohmann::json;
using security::Role;

absl::Time Date() { return absl::Now(); }

// A planner with a run of three tasks, and its page.
struct Shown {
  explicit Shown(std::shared_ptr<security::Guard> guard = nullptr) {
    spdlog::set_level(spdlog::level::off);
    planner::PlannerOptions options;
    options.board_path = folder / "board.md";
    options.on_view = [this](const planner::View& view) { published.Take(view); };
    planner = *planner::Planner::Start(
        &store, options,
        [this] {
          return planner::Now{++now_ms, 1};
        },
        [](const absl::Status&) {});
    if (guard == nullptr) guard = std::make_shared<security::Guard>(nullptr, nullptr, &Date);
    auto started = Page::Start({"127.0.0.1:0", guard}, planner.get(), &published);
    REQUIRE(started.status() == absl::OkStatus());
    page = *std::move(started);
    v1::SubmitRequest request;
    *request.mutable_problems() = planner::testing::SetOf(3);
    request.set_arch("host");
    request.set_submitter("ada");
    absl::Notification done;
    planner->Submit({Role::kLocal, ""}, request,
                    [&](const absl::StatusOr<v1::SubmitReply>&) { done.Notify(); });
    done.WaitForNotification();
    planner->Tick();
    // It may have been drawn before it was submitted, or is on its way.
    const auto there = [&] { return json::parse(published.Since("")->json)["tasks"].size() == 3; };
    for (; !there(); std::this_thread::yield()) {
      now_ms += 10'000;
      planner->Tick();
      published.Await(published.Since("")->key, absl::Milliseconds(50));
    }
  }
  ~Shown() {
    page.reset();
    planner->Stop();
  }
  int port() const { return std::stoi(page->address().substr(page->address().rfind(':') + 1)); }

  support::TemporaryFolder folder;
  std::atomic<int64_t> now_ms{1'000'000};
  store::MemoryStore store;
  Published published{"x", &Date};
  std::unique_ptr<planner::Planner> planner;
  std::unique_ptr<Page> page;
};

constexpr char kSetTask[] = "/warpsmith.v1.PlannerService/SetTask";
constexpr char kSetPriority[] = "/warpsmith.v1.PlannerService/SetPriority";
constexpr char kHold[] = R"({"task_id": "r1/p1@host", "state": "HELD", "reason": "a look first"})";

std::string TaskState(const json& update, const std::string& id) {
  for (const json& row : update["tasks"]) {
    if (row[0] == id) return row[4];
  }
  return "";
}

// Reads events until one says that the task is in that state.
bool SeesState(int port, const std::string& key, const std::string& id, const std::string& state) {
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(120);
  std::string text;
  bool seen = false;
  client.Get(("/events?since=" + key).c_str(), [&](const char* data, size_t size) {
    text.append(data, size);
    for (size_t end; (end = text.find("\n\n")) != text.npos; text.erase(0, end + 2)) {
      const size_t at = text.find("data: ");
      if (at > end) continue;
      const json update = json::parse(text.substr(at + 6, end - at - 6));
      seen |= update["full"] == false && TaskState(update, id) == state;
    }
    return !seen;
  });
  return seen;
}

}  // namespace

TEST_CASE("what a browser loads is there, and lets nothing else in") {
  Shown shown;
  httplib::Client client("127.0.0.1", shown.port());
  REQUIRE(PageFiles().size() > 5);
  for (const auto& [path, text] : PageFiles()) {
    INFO(path);
    auto reply = client.Get(path == "/page.html" ? "/" : path.c_str());
    REQUIRE(reply);
    CHECK(reply->status == 200);
    CHECK(reply->body == text);
    const std::string policy = reply->get_header_value("Content-Security-Policy");
    CHECK_THAT(policy,
               Catch::Contains("default-src 'none'") && Catch::Contains("script-src 'self'"));
    CHECK_THAT(policy,
               !Catch::Contains("unsafe") && !Catch::Contains("http") && !Catch::Contains("*"));
    CHECK(reply->get_header_value("X-Content-Type-Options") == "nosniff");
    // Nothing of other hosts, and no markup from text.
    const bool svg = path == "/icon.svg" || path == "/chart.js";  // name its namespace
    CHECK((svg || text.find("://") == std::string::npos));
    for (const char* sink :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("}) {
      CHECK(text.find(sink) == std::string::npos);
    }
  }
  CHECK(client.Get("/state", httplib::Headers{{"Host", "evil.example.com"}})->status == 403);
  CHECK(client.Get("/nothing")->status == 404);
}

TEST_CASE("the state, a task in full and the board are told, and what is done is seen live") {
  Shown shown;
  httplib::Client client("127.0.0.1", shown.port());
  client.set_read_timeout(60);
  const json state = json::parse(client.Get("/state")->body);
  CHECK(state["tasks"].size() == 3);
  CHECK(TaskState(state, "r1/p1@host") == "queued");
  CHECK(json::parse(client.Get("/task?id=r1%2Fp1%40host")->body)["id"] == "r1/p1@host");
  CHECK(client.Get("/task?id=r1%2Fnone%40host")->status == 404);
  CHECK(client.Get("/task")->status == 400);
  CHECK_THAT(json::parse(client.Get("/board")->body)["markdown"].get<std::string>(),
             Catch::Contains("# Warpsmith board"));
  const json you = json::parse(client.Get("/you")->body);
  CHECK(you["role"] == "local");
  CHECK(you["may"].size() == 5);

  bool seen = false;
  std::thread viewer([&, key = state["key"].get<std::string>()] {
    seen = SeesState(shown.port(), key, "r1/p1@host", "held");
  });
  CHECK(client.Post(kSetTask, "{}", "application/json")->status == 404);
  CHECK(client.Post(kSetTask, "nonsense", "application/json")->status == 400);
  CHECK(client.Post(kSetTask, R"({"task_id": "r1/p1@host", "what": 1})", "application/json")
            ->status == 400);
  auto held = client.Post(kSetTask, kHold, "application/json");
  REQUIRE(held);
  CHECK(held->status == 200);
  CHECK(json::parse(held->body)["task"]["state"] == "HELD");
  shown.now_ms += 10'000;
  shown.planner->Tick();
  viewer.join();
  CHECK(seen);
  // Who asks is told the same.
  const json update =
      json::parse(client.Get(("/state?since=" + state["key"].get<std::string>()).c_str())->body);
  CHECK(update["full"] == false);
  CHECK(TaskState(update, "r1/p1@host") == "held");
}

TEST_CASE("a run is put before others, and whoever sends no priority is told so") {
  Shown shown;
  httplib::Client client("127.0.0.1", shown.port());
  client.set_read_timeout(60);
  const auto put = [&](const char* body) {
    const auto reply = client.Post(kSetPriority, body, "application/json");
    REQUIRE(reply);
    return std::pair(reply->status, reply->body);
  };
  const std::string key = shown.published.Since("")->key;
  const auto [status, body] = put(R"({"run_id": "r1", "priority": -7, "reason": "no hurry"})");
  CHECK(status == 200);
  CHECK(json::parse(body)["run"]["priority"] == -7);
  const auto [missing, says] = put(R"({"run_id": "r1", "reason": "no hurry"})");
  CHECK(missing == 400);
  CHECK_THAT(says, Catch::Contains("say which priority, -1000 to 1000"));
  CHECK(put(R"({"run_id": "r1", "priority": 1001})").first == 400);
  CHECK(put(R"({"run_id": "r1", "priority": 1.5})").first == 400);
  CHECK(put(R"({"run_id": "r2", "priority": 1})").first == 404);
  shown.now_ms += 10'000;
  shown.planner->Tick();
  // It is seen with its row, and among the news.
  json update;
  do {
    shown.published.Await(key, absl::Milliseconds(50));
    update = json::parse(client.Get(("/state?since=" + key).c_str())->body);
  } while (update["runs"].empty());
  CHECK(update["runs"][0][9] == -7);
  REQUIRE(update["news"].size() == 1);
  CHECK(update["news"][0][4] == "priority -7, was 0");
}

TEST_CASE("so many are shown it live, later ones are told to ask, and all are answered") {
  Shown shown;
  std::atomic<int> live = 0, refused = 0;
  std::vector<std::thread> viewers;
  const std::string key = shown.published.Since("")->key;
  const auto view = [&] {
    httplib::Client client("127.0.0.1", shown.port());
    client.set_read_timeout(120);
    auto reply = client.Get(
        "/events?since=none",
        [&](const httplib::Response& response) {
          response.status == 200 ? ++live : ++refused;
          return response.status == 200;
        },
        [](const char*, size_t) { return true; });
  };
  for (int i = 0; i < kMaxViewers; ++i) viewers.emplace_back(view);
  while (live + refused < kMaxViewers) std::this_thread::yield();
  CHECK(live == kMaxViewers);
  viewers.emplace_back(view);
  while (live + refused < kMaxViewers + 1) std::this_thread::yield();
  CHECK(refused == 1);
  httplib::Client client("127.0.0.1", shown.port());
  client.set_read_timeout(60);
  auto asked = client.Get(("/state?since=" + key).c_str());
  REQUIRE(asked);
  CHECK(asked->status == 200);
  CHECK(client.Get("/events")->status == 503);
  // The page's end is theirs: nobody leaves before.
  shown.page.reset();
  for (std::thread& viewer : viewers) viewer.join();
}

TEST_CASE("each role sees and does by the page what the table says") {
  support::TemporaryFolder folder;
  security::Authority authority(folder / "ca");
  REQUIRE(authority.Init("fleet", absl::Hours(48), Date()).ok());
  REQUIRE(authority.Issue({{Role::kPlanner, "planner"}, {}, absl::Hours(24)}, Date()).ok());
  const std::string pem = authority.Path("planner.pem");
  const security::Files files{.ca = authority.Path("ca.crt"), .cert = pem, .key = pem};
  auto identity = *security::WatchedIdentity::Open(files, security::Needs::kPlanner, Date());
  security::Tokens tokens(folder / "tokens");
  const std::map<std::string, Role> people = {{"ada", Role::kSubmitter},
                                              {"bob", Role::kSubmitter},
                                              {"ops", Role::kOperator},
                                              {"eye", Role::kReader}};
  std::map<std::string, std::string> token = {{"", ""}};
  for (const auto& [name, role] : people) {
    token[name] = *tokens.Issue({role, name}, absl::Hours(1), Date());
  }
  REQUIRE(tokens.Refresh().ok());
  Shown shown(std::make_shared<security::Guard>(identity.get(), &tokens, &Date));
  const auto client = [&] {
    auto client = std::make_unique<httplib::SSLClient>("127.0.0.1", shown.port());
    client->set_ca_cert_path(files.ca.c_str());
    client->set_read_timeout(60);
    return client;
  };
  const auto headers = [&](const std::string& name) {
    httplib::Headers headers;
    if (!name.empty()) headers.emplace("Authorization", "Bearer " + token[name]);
    return headers;
  };
  struct Promise {
    const char* name;
    int sees;
    int holds_task, holds_worker;  // of ada's run, and puts it before others; of no worker
  };
  for (const Promise& promise :
       {Promise{"", 401, 401, 401}, Promise{"eye", 200, 403, 403}, Promise{"bob", 200, 403, 403},
        Promise{"ada", 200, 200, 403}, Promise{"ops", 200, 200, 404}}) {
    INFO(promise.name);
    CHECK(client()->Get("/", headers(promise.name))->status == 200);
    auto you = client()->Get("/you", headers(promise.name));
    REQUIRE(you);
    CHECK(you->status == promise.sees);
    if (you->status == 200) {
      const json may = json::parse(you->body)["may"];
      const std::string tasks = promise.name == std::string("ops")   ? "all"
                                : promise.name == std::string("eye") ? ""
                                                                     : "own";
      CHECK(may.value("SetTask", "") == tasks);
      CHECK(may.value("SetPriority", "") == tasks);
      CHECK(may.value("HoldWorker", "") == (tasks == "all" ? "all" : ""));
    }
    for (const char* path : {"/state", "/task?id=r1%2Fp1%40host", "/board"}) {
      INFO(path);
      CHECK(client()->Get(path, headers(promise.name))->status == promise.sees);
    }
    CHECK(client()->Post(kSetTask, headers(promise.name), kHold, "application/json")->status ==
          promise.holds_task);
    CHECK(client()
              ->Post(kSetPriority, headers(promise.name), R"({"run_id": "r1", "priority": 3})",
                     "application/json")
              ->status == promise.holds_task);
    CHECK(client()
              ->Post("/warpsmith.v1.PlannerService/HoldWorker", headers(promise.name),
                     R"({"worker_id": "nobody"})", "application/json")
              ->status == promise.holds_worker);
    for (const char* path :
         {"/warpsmith.v1.PlannerService/Submit", "/warpsmith.v1.PlannerService/List"}) {
      CHECK(client()->Post(path, headers(promise.name), "{}", "application/json")->status == 405);
    }
  }
  // Not in the address.
  CHECK(client()->Get(("/state?token=" + token["eye"]).c_str())->status == 401);
}

TEST_CASE("what many ask for is made once, by one at a time") {
  Kept kept;
  std::atomic<int> made = 0, at_once = 0, most = 0, refused = 0, right = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 2 * kMaxWaiting; ++i) {
    callers.emplace_back([&] {
      const auto got = kept.Get("it", [&]() -> Kept::Made {
        most = std::max(most.load(), ++at_once);
        ++made;
        while (refused < kMaxWaiting && made == 1) std::this_thread::yield();
        --at_once;
        return "the thing";
      });
      got.ok() && *got == "the thing" ? ++right : ++refused;
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(most == 1);
  CHECK(refused == kMaxWaiting);
  CHECK(right == kMaxWaiting);
  CHECK(made < kMaxWaiting);  // on a slow machine more than once: it is kept for a while
}

}  // namespace warpsmith::web
