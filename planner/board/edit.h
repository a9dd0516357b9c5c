// What people write on a board: in the `state` cell of a task's or worker's row a verb, with a
// reason after a colon if they like.
//
//   | softmax_rows | hold: the card is wanted | w0 | ...
//
//   hold     a task, until it is released; a worker is given nothing until then
//   release  a held, parked or failed task; a held or quarantined worker
//   cancel   a task
//
// The planner writes none of these there, so a verb means the same on whatever page it stands,
// however old that is: an editor may be open for hours while the planner writes page after page.
// The rest of a page is the planner's; what is written there changes nothing.
#pragma once

#include <string>
#include <vector>

#include "warpsmith/v1/task.pb.h"

namespace warpsmith::board {

enum class Verb { kHold, kRelease, kCancel };

struct Edit {
  int line = 0;      // of the page, from 1
  std::string text;  // of that line, for people
  Verb verb = Verb::kHold;
  std::string run_id;  // "": of a worker
  std::string name;    // of the task in its run (problem::NameOf), or of the worker
  std::string reason;  // "": none
};

// A line that was changed and means nothing. The whole of the page, where `line` is 0.
struct Unread {
  int line = 0;
  std::string text;  // as Quoted
  std::string why;   // and what to write
};

struct Edits {
  std::vector<Edit> edits;  // by line
  std::vector<Unread> unread;
};

// At most so many lines are named of one page.
inline constexpr size_t kMaxUnread = 100;

// `base`: the page that it was made from, which shows what else was changed; "": it is not known.
// Of two rows of one thing none is read, nor anything of a page that is cut or that has marks of a
// conflict.
Edits ReadEdits(const std::string& page, const std::string& base);

// What the verb wants of a task.
v1::TaskState StateOf(Verb verb);
// "hold r1/softmax_rows", "release worker w0".
std::string Describe(const Edit& edit);
// A line of others, short and without markup.
std::string Quoted(const std::string& text);

}  // namespace warpsmith::board
