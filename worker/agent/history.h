// What is known of a task within one slice: the states that were judged and the moves from them.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "warpsmith/v1/trial.pb.h"
#include "worker/agent/specialist.h"
#include "worker/agent/state.h"

namespace warpsmith::agent {

inline constexpr double kStartPromise = 1.0;

// A schedule that gave a right answer (or, for the first, one that is still being judged), with the
// moves that lead on from it.
struct Node {
  State state;
  // One list for each specialist, in the order of MakeSpecialists. Made when first wanted, and anew
  // when the state's time is known.
  std::vector<std::vector<Action>> moves;
  bool expanded = false;
  // What was expected of the move that led here, in log time. No move led to a start, of which much
  // is expected.
  double promise = kStartPromise;
  // Moves from here that were judged, and those of them that were wrong.
  int judged = 0, wrong = 0;
  // Whether nearly all of them were: then it is right itself by the draw, and not by much.
  bool doubtful() const {
    constexpr int kSome = 6;
    constexpr double kNearlyAll = 0.8;
    return judged >= kSome && wrong >= kNearlyAll * judged;
  }
};

// A move that was, or is about to be, tried.
struct Proposal {
  std::shared_ptr<Node> from;
  Action action;
  // With which the policy would propose it, knowing what it knew: over its own draws alone. 1: it
  // could have been no other.
  double probability = 1;
};

// What became of it.
struct Result {
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;  // UNSPECIFIED: abandoned before it was judged
  double gain = 0;                                // log(time before / time after); 0 unless `right`
  bool right = false;     // it ran, and the answer was right; of a DUPLICATE: its source was
  bool accepted = false;  // it is the new incumbent
};

class History {
 public:
  History();

  // The schedule of `node` is the one to start from; it need not have been judged yet.
  void Start(std::shared_ptr<Node> node);
  // A right answer: a place that one can go on from.
  void Add(std::shared_ptr<Node> node, bool incumbent);

  // It ran and would be right, but for its accuracy: a place for the precision specialist.
  void AddInaccurate(std::shared_ptr<Node> node) { inaccurate_.push_back(std::move(node)); }

  // The incumbent, or what Start was given. Never null after Start.
  const std::shared_ptr<Node>& best() const { return best_; }
  const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }
  const std::vector<std::shared_ptr<Node>>& inaccurate() const { return inaccurate_; }

  const std::vector<std::unique_ptr<Specialist>>& specialists() const { return specialists_; }
  // Moves from a node, by specialist.
  const std::vector<std::vector<Action>>& Moves(Node& node) const;

  // True the first time it is asked of a schedule.
  bool Claim(const v1::Schedule& schedule);
  bool Tried(const v1::Schedule& schedule) const;

 private:
  const std::vector<std::unique_ptr<Specialist>> specialists_;
  std::shared_ptr<Node> best_;
  std::vector<std::shared_ptr<Node>> nodes_, inaccurate_;
  std::set<std::string> tried_;  // serialised schedules
};

}  // namespace warpsmith::agent
