#include "planner/web/published.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "planner/web/detail.h"

namespace warpsmith::web {
namespace {

using nlohmann::json;

// What a planner hands out.
struct Told {
  Told() { changes.records.set_revision(1); }
  v1::Task& Task(const std::string& id, v1::TaskState state) {
    v1::TaskRecord& record = *changes.records.add_tasks();
    record.mutable_task()->set_id(id);
    record.mutable_task()->set_state(state);
    return *record.mutable_task();
  }
  v1::TaskRecord& Leased(const std::string& id, const std::string& worker, int64_t fence) {
    Task(id, v1::LEASED).set_fence(fence);
    v1::TaskRecord& record = *changes.records.mutable_tasks()->rbegin();
    record.mutable_lease()->set_worker_id(worker);
    return record;
  }
  planner::View View() const {
    planner::View view{std::make_shared<planner::Changes>(changes), std::nullopt, true};
    if (!progress.empty()) view.progress = progress;
    return view;
  }
  planner::Changes changes;
  std::map<std::string, planner::Progress> progress;
};

struct Reader {
  explicit Reader(const Published& published) : published(published) {}
  json Read() {
    const json update = json::parse(published.Since(key)->json);
    key = update["key"];
    return update;
  }
  const Published& published;
  std::string key;
};

std::vector<std::string> Names(const json& rows) {
  std::vector<std::string> names;
  for (const json& row : rows) names.push_back(row[0]);
  return names;
}

absl::Time Date() { return absl::FromUnixSeconds(1'000'000'000); }

}  // namespace

TEST_CASE("a reader is told what changed, and all of it where it has nothing") {
  Published published("x", &Date);
  Reader reader(published);
  Told first;
  first.Task("r1/a@host", v1::QUEUED);
  first.Task("r1/b@host", v1::QUEUED);
  published.Take(first.View());
  json all = reader.Read();
  CHECK(all["full"] == true);
  CHECK(Names(all["tasks"]) == std::vector<std::string>{"r1/a@host", "r1/b@host"});
  CHECK(all["columns"]["tasks"].size() == all["tasks"][0].size());
  CHECK(all["news"].empty());  // what was there before is none

  Told second;
  second.changes.records.set_revision(2);
  second.Task("r1/b@host", v1::HELD).set_reason("wanted elsewhere");
  published.Take(second.View());
  json some = reader.Read();
  CHECK(some["full"] == false);
  CHECK(some["revision"] == 2);
  CHECK(Names(some["tasks"]) == std::vector<std::string>{"r1/b@host"});
  REQUIRE(some["news"].size() == 1);
  CHECK(some["news"][0] ==
        json({1'000'000'000'000, "moved", "r1/b@host", "", "held: wanted elsewhere"}));
  CHECK(reader.Read()["tasks"].empty());

  SECTION("what is the same once more is nothing new") {
    const std::string key = reader.key;
    published.Take(second.View());
    CHECK_FALSE(published.Await(key, absl::ZeroDuration()));
    CHECK(published.Since(key)->key == key);
  }
  SECTION("what went is named") {
    Told third;
    third.changes.records.set_revision(3);
    third.changes.archived.add_tasks()->mutable_task()->set_id("r1/a@host");
    third.changes.forgotten = {"never there"};
    published.Take(third.View());
    CHECK(reader.Read()["gone"] == json({{"tasks", {"r1/a@host"}}}));
    Reader later(published);
    CHECK(Names(later.Read()["tasks"]) == std::vector<std::string>{"r1/b@host"});
  }
  SECTION("a key of another process, or none at all, gets all") {
    for (const char* key : {"y-2", "x-99", "x-", "x--1", "nonsense", "x-1 "}) {
      INFO(key);
      reader.key = key;
      CHECK(reader.Read()["full"] == (std::string(key) != "x-1 "));
    }
  }
}

TEST_CASE("where more went than is remembered a reader of before gets all") {
  Ledger ledger(2);
  for (int i = 0; i < 5; ++i) ledger.Set(absl::StrCat("t", i), "[]", 1);
  for (int i = 0; i < 3; ++i) CHECK(ledger.Erase(absl::StrCat("t", i), 2 + i));
  CHECK_FALSE(ledger.Erase("t0", 9));
  CHECK(ledger.size() == 2);
  CHECK_FALSE(ledger.Knows(1));
  CHECK(ledger.Knows(2));
  std::vector<std::string> gone;
  ledger.ForEachSince(2, [&](const Row& row) { gone.push_back(row.id); });
  CHECK(gone == std::vector<std::string>{"t2", "t1"});
  // One that comes back is there again.
  CHECK(ledger.Set("t2", "[1]", 6));
  CHECK(ledger.size() == 3);
  CHECK(*ledger.Find("t2") == "[1]");
  CHECK(ledger.Find("t1") == nullptr);
}

TEST_CASE("the news say who was given what, and why it was moved") {
  Published published("x", &Date);
  Reader reader(published);
  Told begin;
  v1::Task& queued = begin.Task("r1/a@host", v1::QUEUED);
  queued.set_seconds_budget(100);
  published.Take(begin.View());
  reader.Read();

  Told given;
  given.Leased("r1/a@host", "w0", 1).mutable_task()->set_seconds_budget(100);
  given.progress["r1/a@host"] = {3.25, "fusion"};
  published.Take(given.View());
  json update = reader.Read();
  REQUIRE(update["news"].size() == 1);
  CHECK(update["news"][0][1] == "given");
  CHECK(update["news"][0][3] == "w0");
  CHECK(update["news"][0][4] == "untried, hoped for +300 % in the next 70 s");
  CHECK(update["progress"] == json::array({json({"r1/a@host", 3.25, "fusion"})}));

  Told moved;
  v1::TaskRecord& other = moved.Leased("r1/a@host", "w1", 2);
  other.set_incumbent_trial_id("t");
  other.mutable_task()->set_incumbent_blob("there");
  other.mutable_task()->set_speedup(1.5);
  v1::Lesson& lesson = *other.add_lessons();
  lesson.set_specialist("memory");
  lesson.set_action("vector_bytes 4 -> 16");
  lesson.set_speedup_before(1);
  lesson.set_speedup_after(1.5);
  v1::SliceGain& gain = *other.mutable_task()->add_gains();
  gain.set_seconds(70);
  gain.set_speedup_before(1);
  gain.set_speedup_after(1.5);
  published.Take(moved.View());
  update = reader.Read();
  REQUIRE(update["news"].size() == 3);
  CHECK(update["news"][0][4] == "1.00x to 1.50x, memory: vector_bytes 4 -> 16");
  CHECK(update["news"][1][1] == "left");
  CHECK(update["news"][1][3] == "w0");
  CHECK(update["news"][1][4] == "70 s gave 1.00x to 1.50x; leased");
  CHECK(update["news"][2][1] == "given");
  CHECK(update["news"][2][3] == "w1");
}

TEST_CASE("who waits is woken by what comes, and by the end") {
  Published published("x", &Date);
  published.Take(Told().View());
  const std::string key = published.Since("")->key;
  CHECK_FALSE(published.Await(key, absl::ZeroDuration()));
  CHECK(published.Await("y-1", absl::ZeroDuration()));
  std::thread coming([&] {
    Told told;
    told.changes.records.set_revision(2);
    published.Take(told.View());
  });
  CHECK(published.Await(key, absl::Minutes(1)));
  coming.join();
  std::thread ending([&] { published.Close(); });
  CHECK_FALSE(published.Await(published.Since("")->key, absl::Minutes(1)));
  ending.join();
  CHECK(published.closed());
}

TEST_CASE("text of others stays text, whatever its bytes are") {
  Published published("x", &Date);
  Told told;
  told.Task("r1/a@host", v1::FAILED).set_reason("</script>\"\n\xff <img src=x>");
  published.Take(told.View());
  const auto update = published.Since("");
  CHECK(update->json.find('\n') == std::string::npos);  // an event is one line
  CHECK(json::parse(update->json)["tasks"][0][5] == "</script>\"\n\xef\xbf\xbd <img src=x>");
  v1::GetTaskReply reply;
  reply.mutable_incumbent()->mutable_solution()->add_plans()->set_source("</script>\xff");
  CHECK(json::parse(DetailOf(reply))["kernel"]["plans"][0]["source"] == "</script>\xef\xbf\xbd");
}

TEST_CASE("a task in full has its gains with the trials and seconds that they took") {
  v1::GetTaskReply reply;
  reply.mutable_task()->set_id("r1/a@host");
  reply.mutable_task()->set_trials(7);
  const auto add = [&](v1::Verdict verdict, double us, double incumbent_us) {
    v1::Trial& trial = *reply.mutable_trials()->add_trials();
    trial.set_specialist("memory");
    trial.set_verdict(verdict);
    trial.set_seconds(0.5);
    trial.set_reason("because");
    trial.mutable_timing()->set_median_us(us);
    trial.mutable_timing()->set_incumbent_us(incumbent_us);
  };
  add(v1::ACCEPTED, 100, 0);
  add(v1::NOT_COMPILED, 0, 0);
  add(v1::NOT_COMPILED, 0, 0);
  add(v1::ACCEPTED, 50, 100);
  const json detail = json::parse(DetailOf(reply));
  CHECK(detail["gains"] ==
        json({{1, 0.5, 100.0, 1.0, "memory", ""}, {4, 2.0, 50.0, 2.0, "memory", ""}}));
  CHECK(detail["verdicts"][0] == json({"accepted", 2, "because"}));
  CHECK(detail["verdicts"][1] == json({"not compiled", 2, "because"}));
  CHECK(detail["missing"] == 3);
  CHECK(detail["seconds"] == 2.0);
  CHECK(detail.count("kernel") == 0);
}

}  // namespace warpsmith::web
