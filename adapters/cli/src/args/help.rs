//! What `--help` tells beyond the list of flags.

pub(super) const TOP: &str = "\
First steps:
  arbe serve                          start a server; it makes a house, an owner and a token
  arbe thread create 'my first'       make a thread; prints its id
  arbe say THREAD 'good morning'      say something in it
  arbe tail THREAD                    follow it, in a second terminal

Variables:
  Every setting is a flag, an ARBE_… variable and a key of the configuration file.
  ARBE_URL, ARBE_TOKEN, ARBE_HOUSE    the server, as whom, and in which house

Files:
  server.url          in the data directory: where the server that last started listens
  owner-token         in the data directory: the first owner's token, for one user's eyes
  arbe/config.toml    in the XDG configuration directory

Exit codes:
  0 done   1 failed, or the outcome is unknown   2 usage   3 not found
  4 refused, for lack of a right or by a rule    5 damage found
  `arbe thread run` ends with the exit code of the command that it ran";

pub(super) const SERVE: &str = "\
Examples:
  arbe serve                                          everything in the XDG data directory
  arbe serve --listen 127.0.0.1:0 --data-dir ./data   a free port, another place
  arbe serve --store s3://bucket/prefix --database-url postgres://arbe@db/arbe
  arbe serve --transport stdio                        the sessions to a model, as `arbe mcp`";

pub(super) const SAY: &str = "\
Prints the id of the entry. If the connection breaks, it is tried again without saying it twice.

Examples:
  arbe say k3v9 'the build is red again'
  git log -1 | arbe say k3v9 -";

pub(super) const TAIL_ABOUT: &str = "\
Print a thread and follow it as it grows.

Each entry is printed with time, author, type and text; with --json as {\"next_offset\", \"entry\"} on one line. \
If the server stops or the network fails, it waits, says so on stderr, and goes on after the last entry it printed. \
Ctrl-C ends it and prints the offset to go on from.";

pub(super) const TAIL: &str = "\
Examples:
  arbe tail k3v9                      the last ten entries, then what comes
  arbe tail k3v9 --from-start --no-follow
  arbe tail k3v9 --json --from 0000000000000001_0000000000000042 | jq .entry.payload";

pub(super) const THREAD: &str = "\
Examples:
  arbe thread create 'release 2' --tag release --pin
  arbe thread list --tag release --status open
  arbe thread tag k3v9 urgent backend
  arbe thread run k3v9 -- cargo test --workspace
  arbe thread delegate k3v9 --agent reviewer 'fix the build' --follow
  arbe thread cancel m4x2
  arbe thread diagnose m4x2
  run=$(arbe thread start m4x2)
  arbe thread finish m4x2 $run --status failed --message 'the tests do not pass' --exit-code 101
  curl -H \"Authorization: Bearer $(arbe thread token k3v9)\" http://127.0.0.1:4437/api/stream/arbe-thread-k3v9";

pub(super) const THREAD_RUN: &str = "\
What it prints goes to stdout and stderr as it comes, and stands in the thread. If the connection breaks or this is ended, the command goes on.
The exit code is the command's, with --json too: 128 and the number of the signal if one ended it, 124 if it took longer than it may. If \
it was cancelled, or nobody knows how it ended, it is 1; if it could not be run, it is that of any verb. stderr says which of these it was.

Examples:
  arbe thread run k3v9 -- git status
  arbe thread run k3v9 --cwd web --timeout 10m -- npm test
  arbe thread run k3v9 -- 'grep -r TODO src | wc -l'
  arbe thread run k3v9 --json -- make | jq -r .output";

pub(super) const THREAD_DELEGATE: &str = "\
Examples:
  arbe thread delegate k3v9 --agent reviewer 'review the last commit' --follow
  gh issue view 17 | arbe thread delegate k3v9 --agent 2f1c8a52-… --name 'issue 17' -
  arbe thread delegate k3v9 --agent reviewer --sandbox s8d1 'look at what is there'";

pub(super) const THREAD_RESUME: &str = "\
Examples:
  arbe thread resume m4x2 'the tests need a database; start one first'
  arbe thread resume m4x2";

pub(super) const THREAD_DIAGNOSE: &str = "\
Examples:
  arbe thread diagnose m4x2
  arbe thread diagnose m4x2 --json | jq -r .forecast";

pub(super) const THREAD_PRUNE_ABOUT: &str = "\
End the runs of the house that are over, and take idle machines of delegated work away and those that nobody would come back to, now.

Every running run is looked at once, by the rules of every look: a machine that is surely dead fails the runs on it, a process that runs is \
left alone, and what is not known changes nothing. Idle machines go without waiting for their time; their trees are kept first. One with work \
on it, or that a chat stands on, or that a member asked for, stays. A sandbox that was asked for by delegated work and is not made yet is given \
up when nobody waits for it any more, and machines that their providers still list go when their sandboxes are over. Prints what was done, what \
was left, and why.";

pub(super) const ENTRY: &str = "\
Examples:
  arbe entry list k3v9 --after 100 --limit 50
  arbe entry append k3v9 --type chat --payload '{\"text\":\"hello\"}'
  arbe entry append k3v9 --batch entries.json";

pub(super) const HOUSE: &str = "\
Verbs that change or show a house work in the one of --house or ARBE_HOUSE, or in the only one you are a member of.

Examples:
  arbe house create 'the lab'
  arbe house rename 'the new lab' --house h7q2
  arbe house default-env e5m1";

pub(super) const MEMBER: &str = "\
Examples:
  arbe member add 2f1c8a52-… --role owner
  arbe member role 2f1c8a52-… member
  arbe member remove 2f1c8a52-…";

pub(super) const AGENT: &str = "\
Examples:
  bot=$(arbe agent register reviewer --kind bot --runtime pi)
  arbe member add $bot
  arbe agent key issue $bot --label laptop
  arbe agent list";

pub(super) const ENV: &str = "\
A recipe may have:
  runtime       local, daytona or sprite [default: the server's]
  image         an image or a snapshot of the provider's
  repo, branch  cloned into the working tree
  setup         a shell script, run in the working tree after the clone, and again where the tree is restored
  limits        cpus, memory_mib, disk_mib, pids; seconds of one command
  env           variables that are no secret
  egress        what a sandbox may reach, each as host:port
  model         the model: api (openai or anthropic), base_url, model; if need be api_key_secret, max_tokens,
                system, trigger (mention, always or never), and bots with what differs for each by name or id
  permissions   ask: tools that need leave before each use, such as bash, or * for all

Examples:
  arbe env create rust --recipe '{\"repo\":\"https://example.org/code.git\",\"egress\":[\"example.org:443\"],\"setup\":\"make deps\"}'
  arbe env update e5m1 --recipe-file recipe.json
  arbe env bind-secret e5m1 GITHUB_TOKEN
  arbe env bind-secret e5m1 DATABASE_URL --optional";

pub(super) const SECRET_ABOUT: &str = "\
Secrets of the house: values that sandboxes get as variables, by name.

A value is read from stdin, encrypted, and shown to nobody again. A name is never changed: every environment that binds it would break \
without a word. Work in an environment that requires a secret which is not there fails and names it.";

pub(super) const SECRET: &str = "\
Examples:
  pass show github | arbe secret set GITHUB_TOKEN
  arbe env bind-secret e5m1 GITHUB_TOKEN
  arbe secret list
  arbe secret delete GITHUB_TOKEN";

pub(super) const VAULT_ABOUT: &str = "\
Look after the vault that keeps the values of secrets, with or without a running server.

Each value is sealed by a key of its own, and that by the vault's: in a file of the data directory, in a variable, or printed by a command. \
The first key seals, all of them open. `rotate` seals the keys of the values anew and leaves the values as they are.

To change the key where all servers read one key file: `arbe vault rotate --new-key`. Anywhere else: append the new key on every server, and \
restart those that have it from a variable; when all have it, move it to the front everywhere, restart again, and rotate. Take the old one \
away only after `arbe vault check` has shown once more that no value is under it.";

pub(super) const VAULT: &str = "\
Examples:
  arbe vault check
  arbe vault rotate --new-key
  arbe vault rotate --vault-key-file /etc/arbe/vault-key";

pub(super) const SANDBOX_ABOUT: &str = "\
Sandboxes: the machines that work is done in, as the platform knows them.

A sandbox is pending until its provider has it running (live), and may die and be resumed: then every thread that pointed at it points \
at the new one. `list --reconcile` asks the providers.

`destroy` has a machine that a server made taken away, with all that runs on it: its tree is kept if that can be had. `resume` is \
refused until it is gone, but with another `--provider`. `live` and `dead` are for machines of your own: only what they say is known of those.";

pub(super) const SANDBOX: &str = "\
Examples:
  arbe sandbox list --runtime daytona
  arbe sandbox list --reconcile --json | jq 'select(.verdict == \"stray\")'
  box=$(arbe sandbox request local --thread k3v9)
  arbe sandbox live $box container-17
  arbe sandbox dead $box --reason 'the host went away'
  arbe sandbox destroy ges5p93a3xf9her0
  arbe sandbox resume $box";

pub(super) const PROJECTIONS_ABOUT: &str = "\
Show each read model: version, position, lag, rate, state.

LAG counts the commits of the log that are not applied yet, SECONDS how long the oldest of them has been waiting. STATE is active (this \
server feeds it), passive (another server does), rebuilding, waiting (for a database that does not answer; tried again by itself), \
starting, stopped (then ERROR names the event that cannot be applied, and what was applied before it is still served), or damaged: then \
ERROR names the tables that somebody dropped, and `arbe rebuild` makes them anew.

Of a read model there may be several copies; one serves. `arbe rebuild --until` leaves its copy beside it until \
`arbe projections drop`: of the rows a schema of the database, to be read with any client of PostgreSQL, of the sessions a directory of Lance datasets.";

pub(super) const PROJECTIONS: &str = "\
Examples:
  arbe projections
  arbe projections --json | jq 'select(.state == \"stopped\").error'
  arbe projections copies
  arbe projections drop rows_v2_7
  arbe projections drop sessions_v1_3";

pub(super) const LOG: &str = "\
Examples:
  arbe log streams arbe-thread-
  arbe log cat arbe-thread-k3v9 --follow
  arbe log check --store s3://bucket/prefix";

pub(super) const REBUILD_ABOUT: &str = "\
Build read models anew from the log, beside the ones that serve, and swap.

The old copy serves until the new one has caught up. A rebuild that was stopped goes on where it was when it is started again. \
With --until the copy stays beside the one that serves, as of that moment, until `arbe projections drop`.";

pub(super) const REBUILD: &str = "\
Examples:
  arbe rebuild                                        all of them
  arbe rebuild rows
  arbe rebuild rows --until 2026-11-16T08:00:00Z";

pub(super) const VERIFY_ABOUT: &str = "\
Replay read models into a scratch copy and compare; exit code 5 if they differ.

The copy that serves is read as of its position, compared table by table, and not changed. A table that is gone differs.";

pub(super) const VERIFY: &str = "\
Examples:
  arbe verify
  arbe verify rows --json";

pub(super) const COMPLETIONS: &str = "\
Examples:
  arbe completions bash > ~/.local/share/bash-completion/completions/arbe
  arbe completions zsh > \"${fpath[1]}/_arbe\"
  arbe completions fish > ~/.config/fish/completions/arbe.fish";

pub(super) const MAN: &str = "\
Examples:
  arbe man | man -l -
  arbe man ~/.local/share/man/man1 && man arbe-thread";

pub(super) const SYNC: &str = "\
Examples:
  arbe sync                                             everything that your clients have recorded
  arbe sync --skip update-indexes                       into the log only
  arbe sync --client pi --from ~/backup/.pi/agent       one client, from another place

What is recorded once stays as it is, whatever becomes of its source. A second run reads only what has changed.";

pub(super) const EXPORT: &str = "\
Examples:
  arbe export sessions.pond                             everything that other clients' sessions said
  arbe export - --client pi | ssh elsewhere 'cat > pi.pond'
  arbe import sessions.pond --house mine

An archive is JSON Lines in zstd, with a checksum at its end. Live threads are not in it: the log is their only copy.";

pub(super) const GET: &str = "\
Examples:
  arbe get 0190a3c2-…                           what was said
  arbe get 0190a3c2-… --mode verbatim --json    everything, page by page
  arbe get --message msg_01… --context 5        one message with its parts, and five on either side";

pub(super) const SEARCH: &str = "\
Examples:
  arbe search fromSortedIter                       an identifier as it is written
  arbe search 'cannot borrow `x` as mutable'       an error as it was printed
  arbe search why was the retry removed --client codex --since 2026-01-01
  arbe search -- --max-count                       a flag, after two dashes
  arbe search --explain src/lib.rs                 what each retriever made of it

A question whose words were never said has no answer: nothing is printed, stderr says why, and the exit code is 3.";

pub(super) const FIND: &str = "\
Examples:
  arbe find panicked                               entries that say it, the best first
  arbe find --thread th_1 --type 'pi.*' cargo test
  arbe find --status failed                        the newest entries of failed threads

What an entry says is found, and whole numbers in it of up to six digits, such as exit codes, ports and lines. Longer numbers and
fractions, as moments, sizes and costs are, are not, unless they stand in a text.";

pub(super) const MCP: &str = "\
Examples:
  claude mcp add arbe -- arbe mcp
  codex mcp add arbe -- arbe mcp

Tools: pond_search and pond_get. Resources: schema://pond and stats://pond. Nothing can be written. A running server serves the same
at /mcp, to whoever has a token. `arbe serve --transport stdio` is another name for this verb.";

pub(super) const EVAL: &str = "\
Examples:
  arbe eval known-items.tsv                        per stratum, with intervals
  arbe eval known-items.tsv --half reporting --misses

The first line of the file names its columns, in any order: query (or question), gold (or expected), stratum (or kind), id.
Any of the expected sessions (`client:session`) or messages (`client:session#message`) is an answer, so nDCG is that of the first.
An item that expects only what is not there is named on stderr and left out; with --json `not_there` lists it.
A stratum named `absent` holds questions without an answer: those are right if nothing is found. Times are those of an index that was
just opened (`cold`), of the first time a question is asked, and of the second.";

pub(super) const RESTORE: &str = "\
Examples:
  arbe restore 0190a3c2-… --to claude-code --dir /tmp/out     as below ~/.claude

For the client that made the session every value comes back. For another one, what it cannot express is listed on stderr by kind
and count; it stays in the log. A live thread is restored as it is at the moment. What a session goes on from without repeating it
comes along where it is not there already.";

pub(super) const RESUME: &str = "\
Examples:
  arbe resume 0190a3c2-… --with pi      go on in pi with what was begun elsewhere

opencode goes on with the model that the session had. Where it has no such provider, name another with `-m provider/model`.";
