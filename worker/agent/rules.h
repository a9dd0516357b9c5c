// The policy `rules`: the move from which most is expected.
//
// Each specialist says what it expects of its moves from the state: bytes and operations counted,
// distance to the speed of light, what the card can hold. That is the prior. What was seen in this
// task corrects it: a move that was tried on another state counts with what it gave there, kinds of
// moves that paid are trusted more and those that did not less, and the compiler's report of a
// state damps moves that want registers where it spilled. Moves start from the incumbent, from its
// nearest runners-up, and from the best schedule of every other structure (fusion, algebra), which
// has not had its knobs turned yet. From what was promising but not accurate enough, more accurate
// accumulators and functions are tried. A small random part of what is expected breaks ties; with
// which probability a move was proposed follows from it.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "worker/agent/draw.h"
#include "worker/agent/policy.h"

namespace warpsmith::agent {

class RulesPolicy : public Policy {
 public:
  explicit RulesPolicy(uint64_t seed) : random_(seed) {}

  std::optional<Proposal> Propose(const History& history) override;
  void Learn(const Proposal& proposal, const Result& result) override;
  int patience(const State& state) const override;

 private:
  struct Credit {
    int tried = 0, paid = 0, pending = 0;
    double gain = 0;  // sum of gains in log time
  };
  struct Base {
    std::shared_ptr<Node> node;
    double behind = 0;        // subtracted from what is expected of its moves
    bool inaccurate = false;  // only what makes it more accurate can help it
  };

  struct Contender {
    const Action* action;
    const Base* base;
    Uniform score;  // the largest that was not tried yet is proposed
  };

  std::optional<Proposal> Propose(const History& history, const std::vector<Base>& bases,
                                  bool doubtful);
  std::vector<Base> Bases(const History& history) const;
  double Expected(const State& state, const Action& action) const;
  static double ProbabilityOf(const History& history, const std::vector<Contender>& all,
                              int chosen);

  std::mt19937_64 random_;
  std::map<std::string, Credit> kinds_;  // by "specialist kind"
  std::map<std::string, Credit> moves_;  // by Action.key
};

}  // namespace warpsmith::agent
