# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The end of a run's processes on other hosts, over the run's ssh, by what they carry in their environment."""

from __future__ import annotations

import dataclasses
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import Problem
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import LONGEST_ENVIRONMENT, DidNotEnd, run
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_DIR_VARIABLE

#: Seconds until a host has to have answered: to connect, then twice to wait for processes to end.
_CONNECT_TIMEOUT = 5
_DEADLINE = 20.0
#: How many bytes a host may print meanwhile.
_MOST_OUTPUT = 1 << 20
#: How many hosts are asked at once.
_AT_ONCE = 64

_ANSWER = "gpufabric.nccl"
#: Read by the remote sh from its standard input, so that no login shell has a say in it. $1: the run. A process that is stopped
#: takes TERM only when it goes on.
_SCRIPT = f"""\
own() {{
    for path in /proc/[0-9]*; do
        [ -O "$path" ] && echo "$path/environ"
    done
}}
# Any user may have the kernel show all of a process's memory as its environment, which takes hours to read.
slow=
timeout 3 grep -lsF -e "GPUFABRIC_POINT=$1/" $(own) /dev/null > /dev/null 2>&1
[ $? = 124 ] && slow=1
begin() {{
    head -c {LONGEST_ENVIRONMENT} "$1"
}}
marked() {{
    if [ -z "$slow" ]; then
        grep -lsF -e "GPUFABRIC_POINT=$1/" -e "MCA_gpufabric_point=$1/" $(own) /dev/null
        return
    fi
    for path in $(own); do
        begin "$path" | grep -qsF -e "GPUFABRIC_POINT=$1/" -e "MCA_gpufabric_point=$1/" && echo "$path"
    done
}}
found() {{
    for path in $(marked "$1"); do
        pid=${{path#/proc/}}
        pid=${{pid%/environ}}
        # Not those of containers, which may have a run of the same name.
        [ "$pid" != "$$" ] && [ -O "/proc/$pid" ] && [ "/proc/$pid/ns/pid" -ef /proc/self/ns/pid ] || continue
        # Nor programs that anybody may start as this user, such as su: their environment is that of whoever did.
        grep -q "^Uid:[[:space:]]*$(id -u)[[:space:]]" "/proc/$pid/status" || continue
        # Containers may share the machine's PIDs.
        [ "/proc/$pid/root" -ef / ] || continue
        # Another run of the name may have another directory. An sshd that is not the run's own names none.
        if [ -n "${{{RUN_DIR_VARIABLE}:-}}" ]; then
            begin "$path" | grep -zqxF -e "{RUN_DIR_VARIABLE}=${RUN_DIR_VARIABLE}" || continue
        else
            begin "$path" | grep -zq -e "^{RUN_DIR_VARIABLE}=" && continue
        fi
        printf '%s ' "$pid"
    done
}}
gone() {{
    for _ in $2; do
        pids=$(found "$1")
        [ -z "$pids" ] && return 0
        [ "$3" = KILL ] && kill -KILL $pids
        sleep 0.2 || sleep 1
    done
    return 1
}}
name() {{
    for pid in $2; do
        name=''
        read -r name < "/proc/$pid/comm"
        echo "$1 $name"
    done
}}
exec 2> /dev/null
echo {_ANSWER}
pids=$(found "$1")
name ended "$pids"
if [ -n "$pids" ]; then
    kill -TERM $pids
    kill -CONT $pids
    gone "$1" '1 2 3 4 5 6 7 8 9 10 11 12 13 14 15' TERM || gone "$1" '1 2 3 4 5 6 7 8 9 10 11 12 13 14 15' KILL
    name left "$(found "$1")"
fi
echo {_ANSWER}
"""


@dataclasses.dataclass(frozen=True)
class Reaped:
    """What came of a host. ``ended``: names of processes. ``error``: why it cannot be said that nothing is left."""

    host: str
    ended: tuple[str, ...] = ()
    error: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """In the form that the module returns."""
        return {"host": self.host, "ended": list(self.ended), "error": self.error}

    def problem(self) -> Problem | None:
        """What the user has to know."""
        if self.error is None:
            return None
        return problem("processes-left", self.host, reason=self.error.rstrip("."))


@dataclasses.dataclass(frozen=True)
class Reach:
    """How other hosts are reached. ``agent``: argv of ssh. ``environment``: what it needs beside the caller's."""

    hosts: tuple[str, ...]
    agent: tuple[str, ...]
    environment: t.Mapping[str, str]


def parse_answer(host: str, text: str, said: str) -> Reaped:
    """What the script printed on a host; ``said``: what ssh said."""
    lines = text.splitlines()
    if lines.count(_ANSWER) < 2:
        reason = said.strip().splitlines()
        return Reaped(host, error=reason[-1] if reason else "it gave no answer")
    words = [line.split(" ", 1) for line in lines[lines.index(_ANSWER) : len(lines)] if " " in line]
    left = sorted(name for what, name in words if what == "left")
    ended = tuple(sorted(name for what, name in words if what == "ended"))
    return Reaped(host, ended, f"processes that do not end: {', '.join(left)}" if left else None)


def reap(run_id: str, reach: Reach, environment: t.Mapping[str, str]) -> list[Reaped]:
    """End all processes of the run's points on the hosts, all at once; those where there was something to say."""
    if not reach.hosts:
        return []

    def ask(host: str) -> Reaped:
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT}"]
        try:
            done = run(
                [*reach.agent, *options, host, "sh", "-s", run_id],
                timeout=_DEADLINE,
                environment={**environment, **reach.environment},
                text=_SCRIPT,
                most=_MOST_OUTPUT,
                own_session=True,
            )
        except DidNotEnd:
            return Reaped(host, error=f"no answer within {_DEADLINE:g} s")
        except NodeError as error:
            return Reaped(host, error=str(error))
        return parse_answer(host, done.stdout, done.stderr)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [found for found in pool.map(ask, reach.hosts) if found.ended or found.error]
