#include <iostream>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/words.h"

namespace warpsmith::cli {

void AddBoard(CLI::App& app, const Context& context, Command& chosen) {
  auto path_only = std::make_shared<bool>(false);
  CLI::App* sub =
      app.add_subcommand("board", "Print the board: the state of all work, in markdown");
  sub->add_flag("--path", *path_only, "only where the file is");
  sub->callback([&context, &chosen, path_only] {
    chosen = [&context, path_only]() -> absl::StatusOr<int> {
      absl::StatusOr<Client> client = Client::Of(context);
      if (!client.ok()) return client.status();
      absl::StatusOr<v1::GetBoardReply> board = client->GetBoard();
      if (!board.ok()) return board.status();
      if (context.json) {
        std::cout << Json(*board);
      } else if (*path_only) {
        std::cout << board->path() << "\n";
      } else {
        std::cout << board->markdown();
      }
      return kDone;
    };
  });
}

}  // namespace warpsmith::cli
