// The page for people: the files that a browser loads, the published state, and what people may do.
//
//   Published published(...);                        // hears of the planner's views
//   auto page = *Page::Start({.listen = "127.0.0.1:0", .guard = guard}, &planner, &published);
//   page->address();
//
//   GET /                  the page, and its files beside it: for everybody, they say nothing
//   GET /you               who the caller is, and what it may do
//   GET /state?since=KEY   what changed since then, or all (published.h)
//   GET /events?since=KEY  the same as server-sent events, as they come, at most one a second
//   GET /task?id=ID        a task in full (detail.h)
//   GET /board             the board, as markdown
//   POST /warpsmith.v1.PlannerService/SetTask, CancelRun, SetPriority, HoldWorker, ReleaseWorker
//                          the planner's calls, their messages as JSON
//
// A browser that stays holds a thread, so kMaxViewers may; whoever comes later is told so (503) and
// asks for /state every few seconds. What they are shown is the published copy, made once for all;
// a task in full and the board are made by one at a time and kept for a while. So viewers cost the
// planner's core a GetTask every now and then, and their threads give way to all others.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/http/server.h"
#include "planner/service/planner.h"
#include "planner/web/kept.h"
#include "planner/web/published.h"

namespace warpsmith::web {

inline constexpr int kMaxViewers = 64;
inline constexpr absl::Duration kBetweenEvents = absl::Seconds(1);
// Something is sent so often even if nothing happens, so that both sides notice the other's end.
inline constexpr absl::Duration kHeartbeat = absl::Seconds(15);

class Page {
 public:
  struct Options {
    std::string listen;
    std::shared_ptr<security::Guard> guard;
  };
  // `planner` and `published` outlive it. Errors as of http::Server::Start.
  static absl::StatusOr<std::unique_ptr<Page>> Start(const Options& options,
                                                     planner::Planner* planner,
                                                     Published* published);
  ~Page();

  const std::string& address() const { return server_->address(); }

 private:
  class Viewer;

  Page(planner::Planner* planner, Published* published)
      : planner_(planner), published_(published) {}
  std::vector<http::Route> Routes();
  http::Reply You(const security::Caller& caller) const;
  http::Reply Events(const http::Request& request);
  http::Reply Task(const std::string& id);
  http::Reply Board();

  planner::Planner* const planner_;
  Published* const published_;
  std::atomic<int> viewers_{0};
  Kept tasks_, boards_;
  std::unique_ptr<http::Server> server_;  // last: it asks what is above
};

}  // namespace warpsmith::web
