#include "planner/board/board.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/words.h"
#include "common/base/file.h"
#include "common/base/private_file.h"
#include "planner/board/edit.h"

namespace warpsmith::cli {
namespace {

absl::StatusOr<int> Print(const Context& context, bool path_only) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::GetBoardReply> board = client->GetBoard();
  if (!board.ok()) return board.status();
  if (context.json) {
    std::cout << Json(*board);
  } else if (path_only) {
    std::cout << board->path() << "\n";
  } else {
    std::cout << board->markdown();
  }
  return kDone;
}

// A file with the page, which an editor knows as markdown by its name.
absl::StatusOr<std::string> WritePage(const std::string& page) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return absl::NotFoundError(absl::StrCat("no folder for a page: ", error.message()));
  std::string path = folder / "warpsmith-board-XXXXXX.md";
  const int made = mkstemps(path.data(), 3);
  if (made < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make '", path, "'"));
  close(made);
  if (absl::Status written = base::WritePrivateFile(path, page); !written.ok()) return written;
  return path;
}

absl::StatusOr<std::string> Edit(const std::string& editor, const std::string& path) {
  const std::string quoted = absl::StrCat("'", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
  const int status = std::system(absl::StrCat(editor, " ", quoted).c_str());
  if (status != 0) {
    return absl::CancelledError(absl::StrCat(
        "the editor `", editor, "` ended with ", WIFEXITED(status) ? WEXITSTATUS(status) : status,
        ": nothing was done, and the page is in '", path, "'"));
  }
  return base::ReadFile(path);
}

absl::Status DoWorkers(Client& client, const board::Edit& edit) {
  if (edit.verb == board::Verb::kHold) {
    v1::HoldWorkerRequest request;
    request.set_worker_id(edit.name);
    request.set_reason(edit.reason);
    return client.HoldWorker(request).status();
  }
  v1::ReleaseWorkerRequest request;
  request.set_worker_id(edit.name);
  request.set_reason(edit.reason);
  return client.ReleaseWorker(request).status();
}

absl::Status Do(Client& client, const board::Edit& edit) {
  if (edit.run_id.empty()) return DoWorkers(client, edit);
  absl::StatusOr<std::vector<v1::Task>> tasks =
      client.FindTasks(absl::StrCat(edit.run_id, "/", edit.name));
  if (!tasks.ok()) return tasks.status();
  v1::SetTaskRequest request;
  request.set_task_id(tasks->front().id());
  request.set_state(board::StateOf(edit.verb));
  request.set_reason(edit.reason);
  return client.SetTask(request).status();
}

absl::StatusOr<int> EditBoard(const Context& context, const std::string& editor) {
  absl::StatusOr<Client> client = Client::Of(context);
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::GetBoardReply> board = client->GetBoard();
  if (!board.ok()) return board.status();
  const absl::StatusOr<std::string> path = WritePage(board->markdown());
  if (!path.ok()) return path.status();
  const absl::StatusOr<std::string> page = Edit(editor, *path);
  if (!page.ok()) return page.status();
  const board::Edits edits = board::ReadEdits(*page, board->markdown());
  size_t done = 0, not_done = edits.unread.size();
  for (const board::Edit& edit : edits.edits) {
    const absl::Status outcome = Do(*client, edit);
    (outcome.ok() ? done : not_done) += 1;
    std::cerr << "line " << edit.line << ": " << board::Describe(edit) << ": "
              << (outcome.ok() ? "done"
                               : absl::StrCat("not done: ", std::string(outcome.message())))
              << "\n";
  }
  for (const board::Unread& unread : edits.unread) {
    if (unread.line > 0) std::cerr << "line " << unread.line << ": ";
    std::cerr << "not read: " << unread.why << "\n";
    if (!unread.text.empty()) std::cerr << "  " << unread.text << "\n";
  }
  if (not_done > 0) {
    std::cerr << "your page is kept in '" << *path << "'\n";
    return done > 0 ? kPartly : kFailed;
  }
  if (done == 0) {
    std::cerr << "nothing was changed; an editor that comes back at once has to be told to wait "
                 "(`code --wait`)\n";
  }
  unlink(path->c_str());
  return kDone;
}

}  // namespace

void AddBoard(CLI::App& app, const Context& context, Command& chosen) {
  auto path_only = std::make_shared<bool>(false);
  CLI::App* sub =
      app.add_subcommand("board", "Print or edit the board: the state of all work, in markdown");
  sub->add_flag("--path", *path_only, "only where the file is");
  auto editor = std::make_shared<std::string>();
  CLI::App* edit = sub->add_subcommand(
      "edit",
      "Write `hold`, `release` or `cancel` in place of states, in an editor, from any host");
  edit->add_option("--editor", *editor,
                   "instead of $VISUAL or $EDITOR: a command that edits a file");
  sub->require_subcommand(0, 1);
  sub->callback([&context, &chosen, path_only, editor, edit] {
    chosen = [&context, path_only, editor, edits = edit->parsed()] {
      return edits ? EditBoard(context, editor->empty() ? context.editor : *editor)
                   : Print(context, *path_only);
    };
  });
}

}  // namespace warpsmith::cli
