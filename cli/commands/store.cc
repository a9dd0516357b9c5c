// store check, store copy, store accept-loss, store migrate, upgrade finish: the planner's store on
// this machine, without its planner.
#include <signal.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/table.h"
#include "common/base/clock.h"
#include "common/store/renew.h"
#include "common/store/sqlite_store.h"
#include "planner/service/candidate.h"
#include "planner/service/migrate.h"
#include "planner/service/recovery.h"
#include "planner/service/redis_flags.h"

namespace warpsmith::cli {
namespace {

constexpr size_t kMaxShown = 50;

bool IsWhole(const planner::StoreReport& report) {
  return report.damage.empty() && report.meaning.empty();
}

nlohmann::json JsonOf(const std::vector<store::Damage>& damage) {
  nlohmann::json list = nlohmann::json::array();
  for (const store::Damage& each : damage) {
    list.push_back({{"where", each.where}, {"what", each.what}});
  }
  return list;
}

nlohmann::json JsonOf(const planner::StoreReport& report) {
  return {{"store", report.store},
          {"whole", IsWhole(report)},
          {"upgraded", report.upgraded},
          {"last_event", report.last},
          {"usable_to_event", report.usable},
          {"events", report.events},
          {"checkpoint_entries", report.entries},
          {"archive_entries", report.archived},
          {"blobs", report.blobs},
          {"trial_batches", report.batches},
          {"runs", report.runs},
          {"tasks", report.tasks},
          {"damage", JsonOf(report.damage)},
          {"damage_not_listed", report.more_damage},
          {"meaning", JsonOf(report.meaning)}};
}

std::string TextOf(const planner::StoreReport& report) {
  return absl::StrCat("store ", report.store, ", to event ", report.last, ": ",
                      Counted(report.runs, "run"), ", ", Counted(report.tasks, "task"),
                      "; read and whole are ", Counted(report.events, "event"), " of the log, ",
                      report.entries, " of the checkpoint, ", report.archived, " of the archive, ",
                      Counted(report.blobs, "blob"), ", ", report.batches, " of trials\n");
}

std::string TableOf(const char* head, const std::vector<store::Damage>& damage) {
  if (damage.empty()) return "";
  Table table({{head}, {"what is wrong"}});
  for (size_t i = 0; i < damage.size() && i < kMaxShown; ++i) {
    table.Add({damage[i].where, damage[i].what});
  }
  std::string text = table.Text();
  if (damage.size() > kMaxShown) {
    absl::StrAppend(&text, "... and ", damage.size() - kMaxShown, " more: -o json lists them\n");
  }
  return text + "\n";
}

std::string DamageOf(const planner::StoreReport& report) {
  std::string text = TableOf("damaged", report.damage);
  if (report.more_damage > 0) absl::StrAppend(&text, report.more_damage, " more not listed\n\n");
  return absl::StrCat(text, TableOf("which means for", report.meaning));
}

absl::StatusOr<int> Check(const Context& context) {
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  absl::StatusOr<planner::StoreReport> report = planner::CheckStore(context.dir);
  if (!report.ok()) return report.status();
  if (context.json) {
    std::cout << JsonOf(*report).dump(2) << "\n";
  } else {
    std::cout << TextOf(*report) << (IsWhole(*report) ? "" : "\n") << DamageOf(*report);
  }
  if (IsWhole(*report)) {
    std::cerr << "the store is whole\n";
    return kDone;
  }
  std::cerr << "the store is damaged: bring back a copy if there is one, or go on with what is "
               "left, to event "
            << report->usable << ", by `warpsmith store accept-loss`\n";
  return kFailed;
}

absl::StatusOr<int> AcceptLoss(const Context& context, bool yes) {
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  if (!yes) {
    absl::StatusOr<planner::StoreReport> report = planner::CheckStore(context.dir);
    if (!report.ok()) return report.status();
    std::cout << TextOf(*report) << DamageOf(*report);
    return absl::FailedPreconditionError(absl::StrCat(
        "nothing was changed. With --yes this becomes another history, which goes on after event ",
        report->usable, " with ", Counted(report->tasks, "task"),
        IsWhole(*report) ? ": the store is whole, so that is for a copy that was brought back"
                         : ": what is listed is lost"));
  }
  absl::StatusOr<planner::AcceptedLoss> accepted = planner::AcceptLoss(context.dir);
  if (!accepted.ok()) return accepted.status();
  if (context.json) {
    nlohmann::json json = JsonOf(accepted->report);
    json["store_now"] = accepted->store;
    json["kept"] = accepted->kept;
    std::cout << json.dump(2) << "\n";
  } else {
    std::cout << DamageOf(accepted->report);
  }
  std::cerr << "the store is " << accepted->store << " from here on, after event "
            << accepted->report.usable << "; what was there is kept in " << accepted->kept << "\n";
  return kDone;
}

absl::StatusOr<int> Copy(const Context& context, const std::string& to) {
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  if (absl::Status copied = store::Copy(context.dir, to); !copied.ok()) return copied;
  if (context.json) std::cout << nlohmann::json{{"copy", to}}.dump(2) << "\n";
  std::cerr << "copied to " << to << "; `warpsmith --dir " << to
            << " store check` reads all of it\n";
  return kDone;
}

absl::StatusOr<int> FinishUpgrade(const Context& context) {
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  const absl::StatusOr<planner::UpgradeFinished> finished = planner::FinishUpgrade(context.dir);
  if (!finished.ok()) return finished.status();
  if (context.json) {
    nlohmann::json json = {{"changed", finished->changed}};
    if (!finished->kept.empty()) json["kept"] = finished->kept;
    std::cout << json.dump(2) << "\n";
  }
  std::cerr << (finished->changed ? "the store is of this version from here on: the version before "
                                    "cannot read it any more\n"
                                  : "the store was of this version before\n");
  if (!finished->kept.empty()) std::cerr << "what was there is kept in " << finished->kept << "\n";
  return kDone;
}

absl::StatusOr<std::unique_ptr<store::RedisStore>> OpenRedis(const planner::RedisFlags& flags) {
  signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<store::RedisStore::Options> options = flags.Read();
  if (!options.ok()) return options.status();
  absl::StatusOr<std::unique_ptr<store::RedisStore>> redis = store::RedisStore::Open(*options);
  if (!redis.ok()) return redis;
  // One that was killed is still named; one that is at work moves its counter.
  planner::Watch watch;
  while (true) {
    const absl::StatusOr<store::Standing> standing = (*redis)->Look();
    if (!standing.ok()) return standing.status();
    if (watch.Sees(*standing, absl::ToInt64Milliseconds(base::Now() - base::Instant()))) {
      return redis;
    }
    if (watch.moves()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the planner at ", standing->leader, " leads: end all planners of the cluster first"));
    }
    absl::SleepFor(planner::kBetweenLooks);
  }
}

absl::StatusOr<int> AcceptLossOfRedis(const Context& context, const planner::RedisFlags& flags,
                                      bool yes) {
  absl::StatusOr<std::unique_ptr<store::RedisStore>> redis = OpenRedis(flags);
  if (!redis.ok()) return redis.status();
  const absl::StatusOr<int64_t> last = (*redis)->LastRevision();
  if (!last.ok()) return last.status();
  if (!yes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "nothing was changed. With --yes this becomes another history, which goes on after event ",
        *last, ": what was answered for after it is lost"));
  }
  if (absl::StatusOr<int64_t> raised = (*redis)->RaiseGeneration(); !raised.ok()) {
    return raised.status();
  }
  const absl::StatusOr<store::Identity> identity = (*redis)->Identify();
  if (!identity.ok()) return identity.status();
  if (context.json) {
    std::cout
        << nlohmann::json{{"store_now", store::TokenOf(*identity)}, {"last_event", *last}}.dump(2)
        << "\n";
  }
  std::cerr << "the store is " << store::TokenOf(*identity) << " from here on, after event "
            << *last << "\n";
  return kDone;
}

// Between the folder and Redis; `back`: to the folder.
absl::StatusOr<int> Migrate(const Context& context, const planner::RedisFlags& flags, bool back) {
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  if (!flags.given()) {
    return absl::InvalidArgumentError("name the other store with --redis and --shared");
  }
  const std::string database = context.dir + "/" + store::kDatabase;
  if (!back && !std::filesystem::exists(database)) {
    return absl::NotFoundError(absl::StrCat(context.dir, " holds no store: name it with --dir"));
  }
  absl::StatusOr<std::unique_ptr<store::RedisStore>> redis = OpenRedis(flags);
  if (!redis.ok()) return redis.status();
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> folder =
      store::SqliteStore::Open(context.dir);
  if (absl::IsUnavailable(folder.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(folder.status().message()), "; `warpsmith down` stops it"));
  }
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<planner::Migrated> migrated =
      back ? planner::Migrate(**redis, **folder) : planner::Migrate(**folder, **redis);
  if (!migrated.ok()) return migrated.status();
  if (context.json) {
    std::cout << nlohmann::json{{"store_now", migrated->store},
                                {"last_event", migrated->revision},
                                {"runs", migrated->runs},
                                {"tasks", migrated->tasks},
                                {"archive_entries", migrated->archived},
                                {"blobs", migrated->blobs},
                                {"trial_batches", migrated->batches}}
                     .dump(2)
              << "\n";
  }
  std::cerr << "moved " << Counted(migrated->runs, "run") << ", "
            << Counted(migrated->tasks, "task") << ", " << migrated->archived
            << " entries of the archive, " << Counted(migrated->blobs, "blob") << " and "
            << migrated->batches << " batches of trials; the store is " << migrated->store
            << " from here on. What was there stays, and is not to be gone on with\n";
  return kDone;
}

}  // namespace

void AddUpgrade(CLI::App& app, const Context& context, Command& chosen) {
  CLI::App* sub = app.add_subcommand("upgrade", "Go over to this version for good");
  sub->require_subcommand(1);
  CLI::App* finish = sub->add_subcommand(
      "finish",
      "Have the store in --dir hold what the version before cannot read; its planner must not run");
  finish->callback([&context, &chosen] { chosen = [&context] { return FinishUpgrade(context); }; });
}

void AddStore(CLI::App& app, const Context& context, Command& chosen) {
  CLI::App* sub = app.add_subcommand("store",
                                     "Check or copy the planner's store in --dir, or go on with "
                                     "what is left of it");
  sub->require_subcommand(1);
  CLI::App* check = sub->add_subcommand(
      "check", "Read all of it and list what is damaged; its planner may run meanwhile");
  check->callback([&context, &chosen] { chosen = [&context] { return Check(context); }; });
  auto to = std::make_shared<std::string>();
  CLI::App* copy =
      sub->add_subcommand("copy", "Copy it to another folder; its planner may run meanwhile");
  copy->add_option("FOLDER", *to, "a new one, or one that holds no store")->required();
  copy->callback(
      [&context, &chosen, to] { chosen = [&context, to] { return Copy(context, *to); }; });
  auto yes = std::make_shared<bool>(false);
  CLI::App* accept = sub->add_subcommand(
      "accept-loss", "Go on without what is damaged, or with a copy that was brought back");
  accept->add_flag("--yes", *yes, "do it; without, only say what would be lost");
  auto lossy = std::make_shared<planner::RedisFlags>();
  lossy->AddTo(*accept);
  accept->callback([&context, &chosen, yes, lossy] {
    chosen = [&context, yes, lossy] {
      return lossy->given() ? AcceptLossOfRedis(context, *lossy, *yes) : AcceptLoss(context, *yes);
    };
  });
  auto back = std::make_shared<bool>(false);
  auto other = std::make_shared<planner::RedisFlags>();
  CLI::App* migrate = sub->add_subcommand(
      "migrate", "Move it from --dir to an empty cluster in Redis; no planner may run");
  other->AddTo(*migrate);
  migrate->add_flag("--back", *back, "from Redis to --dir, which holds no store yet");
  migrate->callback([&context, &chosen, back, other] {
    chosen = [&context, back, other] { return Migrate(context, *other, *back); };
  });
}

}  // namespace warpsmith::cli
