// The machine of a planner: the real service and the real writer on a simulated store, in simulated
// time. It crashes, also in the middle of a commit, and comes back from the store; it stands still
// for a while and goes on; its store answers late, wrongly or takes nothing. Where several share
// the store it follows or leads as the real candidacy decides.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/store/leadership.h"
#include "planner/service/candidacy.h"
#include "planner/service/role.h"
#include "planner/service/service.h"
#include "planner/simulation/checker.h"
#include "planner/simulation/faults.h"
#include "planner/simulation/store_host.h"
#include "planner/simulation/world.h"

namespace warpsmith::planner::simulation {

class PlannerHost final : public Contender {
 public:
  template <typename R>
  using Done = std::function<void(absl::StatusOr<R>)>;

  struct Settings {
    std::string address;
    bool shared = false;  // the store, with others
    int64_t keep_over_tasks = CoreOptions().keep_over_tasks;
  };
  // What happened here.
  struct Counts {
    int crashes = 0;
    int pauses = 0;
    int left = 0;  // in good order
    int takeovers = 0;
    int rivals = 0;   // of these, while another one believed that it leads
    int deposed = 0;  // and began anew
    int refused = 0;  // commits of an older epoch
    int untold = 0;   // answers, since it was not known to lead
    int gave_up = 0;  // the store was not what it was
    int away = 0, slow = 0, stuck = 0;

    void Add(const Counts& other);
  };

  // `faults` may change while it runs. All outlive this.
  PlannerHost(World* world, const Faults* faults, Checker* checker, StoreHost* store,
              Settings settings);

  // As over a connection: Unavailable where nobody listens.
  // Gives the call's number, for Cancel: the caller is gone.
  int64_t Synchronize(v1::SynchronizeRequest request, Done<v1::SynchronizeReply> done);
  void Cancel(int64_t call);
  void Submit(const v1::SubmitRequest& request, Done<v1::Run> done);
  void List(Done<v1::ListReply> done);
  // `done` hears whether it went well.
  using Heard = std::function<void(const absl::Status&)>;
  void Command(planner::Command command, Heard done);

  // Null: down.
  const Core* core() const { return service_ == nullptr ? nullptr : &service_->core(); }
  // Nothing that was handed out waits to be durable.
  bool Settled() const { return service_ != nullptr && writes_.empty() && batch_.empty(); }
  bool asleep() const { return world_->now_ms() < asleep_until_ms_; }
  // It is there, and may answer.
  bool Leads() const;
  // It believes so.
  bool BelievesToLead() const { return role_ != nullptr && role_->leads(); }
  int64_t led_ms() const { return led_ms_; }  // since when it leads
  // Since when it could take over, whatever others do; -1: it could not.
  int64_t well_since_ms() const;

  const std::string& address() const { return settings_.address; }
  const Counts& counts() const { return counts_; }

  // The way to the store: no answer comes, or all come late.
  void LoseStore(int64_t until_ms);
  void SlowStore(int64_t until_ms);
  // Of those that share a store, for the count of rivals.
  void set_others(std::function<bool(const PlannerHost*)> another_leads) {
    another_leads_ = std::move(another_leads);
  }
  // A person starts it again, after it gave up.
  void StartAgain();

  absl::Status CatchUp(const store::Standing& standing) override;
  absl::Status Lead(int64_t epoch, int64_t asked_ms) override;
  void Confirm(int64_t sent_ms) override { role_->Confirm(sent_ms); }
  int64_t alive_ms() const override { return alive_ms_; }

 private:
  using Finish = std::function<void(absl::StatusOr<Reply>, int64_t handled_ms)>;
  struct Waiting {
    Finish finish;
    std::string worker;  // "": of a person
    int64_t handled_ms = 0;
  };

  // Now, or when the process runs again; not at all if it has died by then. In the second case also
  // when its strand does.
  void InProcess(int64_t pause_ms, std::function<void()> action);
  void InPlanner(std::function<void()> action);
  // Whom the checker's workers are to be heard by.
  bool IsLeader() const {
    return role_->leads() && (!settings_.shared || store_->epoch() == epoch_);
  }
  int64_t StrandFreeAt() const { return std::max(asleep_until_ms_, stuck_until_ms_); }
  Now PlannersNow() const { return {world_->now_ms() + clock_offset_ms_, world_->now_ms()}; }
  void Start();
  void StartAfter(int64_t ms);
  void Recover();  // the store's only planner
  void Join();     // one of several
  void End();      // the process
  void Crash();
  void Leave();
  void StandStill(int64_t ms);
  void Linger(int64_t until_ms);
  void BeginAnew(const absl::Status& why);
  void GiveUp(const absl::Status& why);
  void Tick();
  bool TickService();
  bool DrawFaults();
  bool DrawStoresFaults(double seconds);
  int64_t Call(const std::string& worker, planner::Command command, Contents contents,
               Finish finish);
  void HandOut();
  template <typename R>
  void Send(const Done<R>& done, absl::StatusOr<R> reply);
  void CheckMayAnswer();

  // Asks the store who leads.
  void Go(Candidacy::Next next);
  template <typename Result>
  void Ask(std::function<Result(store::Leadership&)> ask,
           std::function<void(Result, int64_t sent_ms)> take);
  store::Fault Plan(absl::string_view call);
  int64_t OneWay();  // a message's time

  void ScheduleCommit(int64_t pause_ms);
  void TakeBatch();
  void Commit();
  void SendCommit();
  void Committed(const absl::Status& status);

  World* const world_;
  const Faults* const faults_;
  Checker* const checker_;
  StoreHost* const store_;
  const Settings settings_;
  std::function<bool(const PlannerHost*)> another_leads_;
  int64_t store_away_until_ms_ = 0;
  int64_t store_slow_until_ms_ = 0;
  int64_t standing_away_until_ms_ = 0;
  int64_t store_failed_ms_ = 0;  // last

  bool starting_ = false;  // it is about to

  // Of one process.
  int64_t generation_ = 0;
  std::shared_ptr<StoreHost::Link> link_;
  std::shared_ptr<Writer> writer_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Role> role_;
  std::unique_ptr<Candidacy> candidacy_;
  int64_t epoch_ = 0;
  int64_t led_ms_ = 0;
  int64_t up_ms_ = 0;
  int64_t alive_ms_ = 0;
  int64_t clock_offset_ms_ = 0;  // a new process has a new monotonic clock
  int64_t asleep_until_ms_ = 0;
  int64_t stuck_until_ms_ = 0;
  // It stands still for so long before it hears the next answer, or before it takes over.
  int64_t still_at_answer_ms_ = 0;
  int64_t still_at_takeover_ms_ = 0;
  bool leaving_ = false;
  int64_t calls_ = 0;
  std::map<int64_t, Waiting> waiting_;  // by call
  std::deque<Write> writes_;
  bool commit_scheduled_ = false;
  std::vector<Write> batch_;  // of the commit under way, and no longer in writes_
  int commit_failures_ = 0;

  Counts counts_;
};

}  // namespace warpsmith::planner::simulation
