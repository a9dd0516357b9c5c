// store check, store backup, store restore, store accept-loss, store migrate, upgrade finish: the
// planner's store, without its planner.
#include <signal.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/table.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/store/manifest.h"
#include "common/store/sqlite_store.h"
#include "planner/service/backup.h"
#include "planner/service/candidate.h"
#include "planner/service/recovery.h"
#include "planner/service/redis_flags.h"
#include "planner/service/transfer.h"

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

nlohmann::json JsonOf(const planner::Inventory& inventory) {
  return {{"last_event", inventory.revision},
          {"runs", inventory.runs},
          {"tasks", inventory.tasks},
          {"archive_entries", inventory.archived},
          {"blobs", inventory.blobs},
          {"blob_bytes", inventory.blob_bytes},
          {"trial_batches", inventory.batches},
          {"trials", inventory.trials},
          {"trial_bytes", inventory.trial_bytes}};
}

nlohmann::json JsonOf(const planner::Backup& backup) {
  nlohmann::json json = JsonOf(backup.inventory);
  json["store"] = backup.inventory.store;
  json["taken"] = absl::FormatTime(absl::RFC3339_sec, backup.taken, absl::UTCTimeZone());
  json["bytes"] = backup.bytes;
  return json;
}

std::string TextOf(const planner::Inventory& inventory) {
  return absl::StrCat(Counted(inventory.runs, "run"), ", ", Counted(inventory.tasks, "task"), ", ",
                      inventory.archived, " entries of the archive, ",
                      Counted(inventory.blobs, "blob"), " (", inventory.blob_bytes, " bytes), ",
                      Counted(inventory.trials, "trial"), " (", inventory.trial_bytes, " bytes)");
}

std::string TextOf(const planner::Backup& backup) {
  return absl::StrCat("of the store ", backup.inventory.store, ", after event ",
                      backup.inventory.revision, ", taken on ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", backup.taken, absl::UTCTimeZone()),
                      ": ", TextOf(backup.inventory), "; ", backup.bytes, " bytes of files");
}

absl::StatusOr<int> CheckBackup(const Context& context) {
  const absl::StatusOr<planner::Backup> backup = planner::CheckBackup(context.dir);
  if (!backup.ok()) return backup.status();
  if (context.json) {
    nlohmann::json json = JsonOf(*backup);
    json["whole"] = true;
    std::cout << json.dump(2) << "\n";
  } else {
    std::cout << "a backup " << TextOf(*backup) << "\n";
  }
  std::cerr << "the backup is whole\n";
  return kDone;
}

absl::StatusOr<int> Check(const Context& context) {
  if (absl::Status status = CheckDir(context); !status.ok()) return status;
  if (std::filesystem::exists(context.dir + "/" + store::kManifest)) return CheckBackup(context);
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
  std::cerr << "the store is damaged: restore a backup if there is one, or go on with what is "
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
  return store::RedisStore::Open(*options);
}

// One on which no planner is at work.
absl::StatusOr<std::unique_ptr<store::RedisStore>> OpenIdleRedis(const planner::RedisFlags& flags) {
  absl::StatusOr<std::unique_ptr<store::RedisStore>> redis = OpenRedis(flags);
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

absl::StatusOr<int> Backup(const Context& context, const planner::RedisFlags& flags,
                           const std::string& folder) {
  // Files stay open that are removed while they are read.
  if (absl::Status raised = rpc::RaiseFileLimit().status(); !raised.ok()) return raised;
  std::unique_ptr<store::Store> from;
  if (flags.given()) {
    auto redis = OpenRedis(flags);
    if (!redis.ok()) return redis.status();
    from = *std::move(redis);
  } else {
    if (absl::Status status = CheckDir(context); !status.ok()) return status;
    auto moment = store::SqliteStore::OpenToRead(context.dir);
    if (!moment.ok()) return moment.status();
    from = *std::move(moment);
  }
  const base::Instant begun = base::Now();
  const absl::StatusOr<planner::Backup> made = planner::MakeBackup(*from, folder, absl::Now());
  if (!made.ok()) return made.status();
  const double seconds = absl::ToDoubleSeconds(base::Now() - begun);
  if (context.json) {
    nlohmann::json json = JsonOf(*made);
    json["backup"] = folder;
    json["seconds"] = seconds;
    std::cout << json.dump(2) << "\n";
  }
  std::cerr << absl::StrFormat("a backup in %s, made in %.1f s and read back, %s\n", folder,
                               seconds, TextOf(*made));
  return kDone;
}

absl::StatusOr<planner::Renewal> RestoreTo(const Context& context, const planner::RedisFlags& flags,
                                           const std::string& folder, bool replace) {
  if (!flags.given()) {
    if (absl::Status status = CheckDir(context); !status.ok()) return status;
    return planner::RestoreFolder(folder, context.dir, replace, absl::Now());
  }
  absl::StatusOr<std::unique_ptr<store::RedisStore>> redis = OpenIdleRedis(flags);
  if (!redis.ok()) return redis.status();
  // Before anything is removed.
  if (absl::Status whole = planner::CheckBackup(folder).status(); !whole.ok()) return whole;
  if (replace) {
    if (absl::Status emptied = (*redis)->Empty(); !emptied.ok()) return emptied;
  }
  return planner::Restore(folder, **redis, absl::Now());
}

absl::StatusOr<int> Restore(const Context& context, const planner::RedisFlags& flags,
                            const std::string& folder, bool replace) {
  if (absl::Status raised = rpc::RaiseFileLimit().status(); !raised.ok()) return raised;
  const absl::StatusOr<planner::Renewal> restored = RestoreTo(context, flags, folder, replace);
  if (!restored.ok()) return restored.status();
  if (context.json) {
    nlohmann::json json = JsonOf(restored->backup);
    json["store_now"] = restored->store;
    if (!restored->kept.empty()) json["kept"] = restored->kept;
    std::cout << json.dump(2) << "\n";
  }
  std::cerr << "restored and read back, " << TextOf(restored->backup) << "\nthe store is "
            << restored->store
            << " from here on. What workers hold of the time after the backup is told on the board "
               "as they come back\n";
  if (!restored->kept.empty()) std::cerr << "what was there is kept in " << restored->kept << "\n";
  return kDone;
}

absl::StatusOr<int> AcceptLossOfRedis(const Context& context, const planner::RedisFlags& flags,
                                      bool yes) {
  absl::StatusOr<std::unique_ptr<store::RedisStore>> redis = OpenIdleRedis(flags);
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
  absl::StatusOr<std::unique_ptr<store::RedisStore>> redis = OpenIdleRedis(flags);
  if (!redis.ok()) return redis.status();
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> folder =
      store::SqliteStore::Open(context.dir);
  if (absl::IsUnavailable(folder.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(folder.status().message()), "; `warpsmith down` stops it"));
  }
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<planner::Inventory> migrated =
      back ? planner::Migrate(**redis, **folder) : planner::Migrate(**folder, **redis);
  if (!migrated.ok()) return migrated.status();
  if (context.json) {
    nlohmann::json json = JsonOf(*migrated);
    json["store_now"] = migrated->store;
    std::cout << json.dump(2) << "\n";
  }
  std::cerr << "moved " << TextOf(*migrated) << "; the store is " << migrated->store
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
                                     "Check, back up, restore or move the planner's store, or go "
                                     "on with what is left of it");
  sub->require_subcommand(1);
  CLI::App* check = sub->add_subcommand(
      "check",
      "Read all of it, or of a backup, and list what is damaged; its planner may run meanwhile");
  check->callback([&context, &chosen] { chosen = [&context] { return Check(context); }; });
  auto folder = std::make_shared<std::string>();
  auto source = std::make_shared<planner::RedisFlags>();
  CLI::App* backup = sub->add_subcommand(
      "backup", "Write what it holds at one moment to a folder; its planners may run meanwhile");
  backup->add_option("FOLDER", *folder, "a new one")->required();
  source->AddTo(*backup);
  backup->callback([&context, &chosen, folder, source] {
    chosen = [&context, folder, source] { return Backup(context, *source, *folder); };
  });
  auto target = std::make_shared<planner::RedisFlags>();
  auto replace = std::make_shared<bool>(false);
  CLI::App* restore = sub->add_subcommand(
      "restore", "Make a store of a backup, in --dir or in Redis; no planner may run there");
  restore->add_option("FOLDER", *folder, "which `store backup` has made")->required();
  restore->add_flag("--replace", *replace,
                    "also where there is a store: it is set aside in --dir, and removed in Redis");
  target->AddTo(*restore);
  restore->callback([&context, &chosen, folder, target, replace] {
    chosen = [&context, folder, target, replace] {
      return Restore(context, *target, *folder, *replace);
    };
  });
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
