"""Drives Daytona's own SDK against an address: what it does here, the stand-in must understand."""

import sys
import time

from daytona import CreateSandboxFromSnapshotParams, Daytona, DaytonaConfig, DaytonaNotFoundError, SessionExecuteRequest

url, token = sys.argv[1:]
daytona = Daytona(DaytonaConfig(api_key=token, api_url=url, target="us"))

labels = {"arbe.house": "h1", "arbe.sandbox": "s1"}
sandbox = daytona.create(
    CreateSandboxFromSnapshotParams(
        name="arbe-s1", language="python", env_vars={"A": "1"}, labels=labels, auto_stop_interval=60, auto_delete_interval=120
    )
)
assert sandbox.state == "started", sandbox.state

done = sandbox.process.exec('echo "$A $X"; exit 3', env={"X": "y"}, timeout=20)
assert (done.exit_code, done.result) == (3, "1 y\n"), done

home = sandbox.get_user_home_dir()
sandbox.fs.upload_file(b"contents \x00\xff", f"{home}/dir/file")
sandbox.fs.set_file_permissions(f"{home}/dir/file", mode="600")
assert sandbox.fs.download_file(f"{home}/dir/file") == b"contents \x00\xff"
assert sandbox.process.exec("stat -c %a dir/file").result == "600\n"

sandbox.process.create_session("run1")
begun = sandbox.process.execute_session_command(
    "run1", SessionExecuteRequest(command="echo out; echo err >&2; sleep 0.3; echo more; (exit 4)", run_async=True)
)
for _ in range(100):
    command = sandbox.process.get_session_command("run1", begun.cmd_id)
    if command.exit_code is not None:
        break
    time.sleep(0.05)
assert command.exit_code == 4, command
logs = sandbox.process.get_session_command_logs("run1", begun.cmd_id)
assert (logs.stdout, logs.stderr) == ("out\nmore\n", "err\n"), logs
assert len(sandbox.process.get_session("run1").commands) == 1
sandbox.process.delete_session("run1")

import asyncio

sandbox.process.create_session("run2")
begun = sandbox.process.execute_session_command(
    "run2", SessionExecuteRequest(command="echo one; sleep 0.2; echo two >&2", run_async=True)
)
followed = {"out": "", "err": ""}


def keep(stream):
    def add(text):
        followed[stream] += text

    return add


asyncio.run(sandbox.process.get_session_command_logs_async("run2", begun.cmd_id, keep("out"), keep("err")))
assert followed == {"out": "one\n", "err": "two\n"}, followed

sandbox.set_labels(labels | {"more": "m"})
sandbox.set_autostop_interval(15)
sandbox.refresh_activity()
assert daytona.get("arbe-s1").id == sandbox.id
assert [one.id for one in daytona.list()] == [sandbox.id]

sandbox.stop()
assert daytona.get(sandbox.id).state == "stopped"
sandbox.start()
assert daytona.get(sandbox.id).state == "started"

sandbox.delete()
try:
    daytona.get(sandbox.id)
except DaytonaNotFoundError:
    print("passed")
