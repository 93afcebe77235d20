#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpi_run
short_description: Run programs on many nodes by mpirun
version_added: 0.1.0
description:
  - Runs a list of points, each a program with arguments and environment, by Open MPI 4 or 5, over the run's private sshd.
  - A process on the launcher runs the points and needs no connection. The controller polls its progress, first after 0.15 seconds and
    later up to every 15 seconds. It shows a line when a point begins or ends, and the rows of nccl-tests as they come.
  - If the connection breaks or the controller is lost, the run continues for O(orphan_timeout) and then ends itself. The points that have
    finished are kept, and the next call continues the run.
  - A second call with the same points and settings follows a run that is still going on, and does not start it twice. If the points
    or settings differ, that call fails. If the run has already ended and its result was never collected, the call returns that result.
  - If a run was stopped, ended itself, or lost its process on the launcher, the next call continues it; see O(resume).
  - A play that is interrupted ends the run. So does a task whose C(ansible-playbook) process was killed, if the task itself was not.
  - With O(claim), a run that another play has taken since is neither continued nor ended by this one. Only O(state=prepared) takes a run
    over, as M(gpufabric.nccl.sshd_instance) and M(gpufabric.nccl.mpi_hostfile) do, which come before.
  - A point that takes too long, fails, or is stopped leaves no process. On all hosts of the hostfile, the module ends each process that
    has the run's E(GPUFABRIC_POINT), over the run's ssh, by SIGTERM and then by SIGKILL.
  - The output of the programs stays in files on the launcher. A file above 1 MiB is compressed when its point is over.
  - Before it ends a point that takes too long, the module looks at its ranks on all hosts at once, over the run's ssh, and asks NCCL's
    RAS twice. This takes 12 seconds at most. The problem of the point names the ranks that the others wait for, their hosts,
    their GPUs and how far they are behind, if that shows. Each run sets E(NCCL_RAS_ADDR) to a free port of the loopback, unless it or
    E(NCCL_RAS_ENABLE) is set.
  - Proves that all hosts and all ranks took part. Before its program begins, each rank writes the line
    C(gpufabric-rank RANK SIZE HOST) to standard error, and nccl-tests programs list their ranks. A run that fell back to one host fails.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.run
  - gpufabric.nccl.run.claim
attributes:
  check_mode:
    support: full
    details:
      - Nothing runs. The module returns the points with the status V(planned) and the command that would run.
  diff_mode:
    support: none
    details:
      - The module runs programs.
  idempotent:
    support: none
    details:
      - The module runs programs.
options:
  state:
    description:
      - V(finished) runs the points to their end.
      - V(started) starts the run and does not wait for it. The next call with V(finished) and the same points and settings
        waits for its end, or returns its result; see O(orphan_timeout).
      - V(prepared) claims the run for O(claim) and writes O(files), as a node needs them where rank 0 runs on another node than mpirun.
      - V(stopped) ends the points that still run, on this node and on the hosts, and keeps their files. With O(claim), only those of the
        play's own run.
      - V(absent) does the same, and removes the files and the hostfile.
    type: str
    choices: [finished, started, prepared, stopped, absent]
    default: finished
  points:
    description:
      - The programs to run, one after the other. A point that fails does not keep the following ones from running.
      - Required with O(state=finished) and O(state=started).
    type: list
    elements: dict
    suboptions:
      id:
        description:
          - Id that identifies the point when a later call continues the run. No two points have the same.
          - By default its name, with its number if others have the same name.
        type: str
        version_added: 0.2.0
      name:
        description: Name of the point in messages. By default the program's name.
        type: str
      argv:
        description: The program and its arguments.
        type: list
        elements: str
        required: true
      env:
        description:
          - Environment variables of the program, on all ranks.
          - A variable that is V(null) is not set on any rank, even if the launcher's environment has it.
        type: dict
        default: {}
      timeout:
        description: How long the point may take, in seconds. By default O(timeout).
        type: float
      ranks_per_node:
        description: How many ranks each host takes. By default O(ranks_per_node).
        type: int
        version_added: 0.2.0
  files:
    description:
      - Texts that the programs need on the launcher, by file name. The module writes them to C(mpi/files) in the run's directory
        before the first point runs.
      - The other nodes do not get them, except by O(state=prepared).
    type: dict
    default: {}
  cpu_program:
    description:
      - Whether the collection's program for machines without GPUs is written to C(mpi/files) too, as C(cpu_perf.py).
      - Points that run it, as M(gpufabric.nccl.benchmark_plan) returns them, have rank 0 send it to the other nodes.
    type: bool
    default: false
    version_added: 0.2.0
  hostfile:
    description:
      - Path of the hostfile.
      - The default is C(mpi/hostfile) in the run's directory, where M(gpufabric.nccl.mpi_hostfile) writes it.
    type: path
  mpi_prefix:
    description: Directory in which Open MPI is installed, on all nodes. By default that of the mpirun that the module finds.
    type: path
  ranks_per_node:
    description: How many ranks each host takes, at most its number of slots. By default its number of slots.
    type: int
  control_interface:
    description:
      - The interface that Open MPI itself uses, by its name or, if names differ between nodes, by its subnet.
      - By default Open MPI tries all networks, and hangs if one leads nowhere.
    type: str
  data_interface:
    description:
      - Name of the interface that NCCL uses, or several, separated by commas. Set as E(NCCL_SOCKET_IFNAME).
    type: str
  node_env:
    description:
      - Environment variables whose value differs from node to node, with the values of this node. mpirun does not forward them.
        The other nodes get theirs from the option O(gpufabric.nccl.sshd_instance#module:environment) of
        M(gpufabric.nccl.sshd_instance).
    type: dict
    default: {}
    version_added: 0.2.0
  forward_env:
    description:
      - Names of the environment variables that the ranks get; C(*) and C(?) are wildcards.
      - The variables of a point are always forwarded.
    type: list
    elements: str
    default: [LD_LIBRARY_PATH, PATH, NCCL_*, RCCL_*, CUDA_*, HSA_*, FI_*, UCX_*, SHARP_*]
  mca:
    description:
      - MCA parameters, which override those that the module sets.
      - By default, C(pml) is V(ob1), C(btl) is V(self,tcp), and the collective components C(ucc) and C(hcoll) are off.
    type: dict
    default: {}
  timeout:
    description: How long a point may take, in seconds. After that, the module ends the point's processes.
    type: float
    default: 600
  startup_timeout:
    description:
      - How long it may take until all ranks of a point have started, in seconds. V(0) is as long as O(timeout).
      - After that, the module ends the point's processes and names the hosts on which no rank has started. If other ranks had started,
        it names those that had not (C(rank-not-started)).
    type: float
    default: 120
    version_added: 0.2.0
  silence_timeout:
    description:
      - How long a point may print nothing once all ranks have started, in seconds. V(0) is as long as O(timeout).
      - After that, the module ends the point's processes. The problem is the rank that the others wait for, or C(silence-timeout) if
        nothing shows which it is.
    type: float
    default: 0
    version_added: 0.2.0
  nccl_log:
    description:
      - Whether NCCL writes its own log to files in the run's directory on every host (E(NCCL_DEBUG_FILE)), and C(transport) and C(software) of
        RV(points[].results) tell what is in it. Every host summarises its own logs, all at once, over the run's ssh.
      - Of points with the same O(points[].env) and O(points[].ranks_per_node) only the first one writes a log; the others have the same
        C(transport), and print NCCL's warnings (E(NCCL_DEBUG=WARN)).
      - What NCCL warned of is among the causes of a point that failed, and among the C(problems) of the results of one that passed.
      - If E(NCCL_DEBUG) or E(NCCL_DEBUG_FILE) is set, no log is written. With E(NCCL_DEBUG=INFO) the output of the program tells the same.
    type: bool
    default: false
    version_added: 0.2.0
  orphan_timeout:
    description:
      - How long a run continues without being polled, in seconds. After that it ends itself. V(0) is for ever.
      - A task that waits for the run polls it. After O(state=started), no task does.
      - By default 90, and at least 30 more than O(poll_grace). With O(state=started) it is 3600 until a task waits for the run.
    type: float
    version_added: 0.2.0
  time_limit:
    description:
      - How long the run as a whole may take, in seconds. After that no further point is started. The remaining points are V(not_run),
        which is no failure, and the next call continues with them.
      - By default there is no limit.
    type: float
    version_added: 0.2.0
  output_limit:
    description:
      - How much a point may print, such as V(500M) or V(2G). V(0) is for no limit. After that, the module ends the point's processes.
      - They are also ended if the file system of the run's directory is almost full. As root, that is usually the node's memory.
    type: str
    default: 2G
    version_added: 0.2.0
  resume:
    description:
      - Whether to keep the finished points of an earlier run of the same O(run_id), and not run them again, if
        that run was stopped, ended itself, reached O(time_limit), or lost its process on the launcher.
      - A point is kept if its command line, the environment that its ranks get from here, its ranks, O(files) and the hosts are the same. Of
        what other hosts set themselves, the module knows nothing. The role P(gpufabric.nccl.nccl_benchmark#role) gives it as a digest
        in O(files).
      - If the earlier run has come to its end, all points run again.
    type: bool
    default: true
    version_added: 0.2.0
  fetch_dest:
    description:
      - Directory on the controller for the output of all points, in one compressed file, C(output.tar.gz), for its user alone.
      - That of an earlier run is removed when the run begins.
      - If the output cannot be fetched, the task warns. The files stay on the launcher.
      - Used with O(state=finished).
    type: path
    version_added: 0.2.0
  fetch_limit:
    description:
      - How large C(output.tar.gz) may be, in bytes, or with C(K), C(M) or C(G). If it is larger, it stays on the launcher.
      - It is not kept either if what is compressed in it is more than 64 times as large as the limit.
      - Used with O(fetch_dest).
    type: str
    default: 8G
    version_added: 0.2.0
  show:
    description:
      - What to show while the run continues. V(points) shows when a point begins and ends, V(rows) also the rows of nccl-tests.
      - With C(-v), it also shows the command line of each point and the in-place values of the rows.
      - Used with O(state=finished).
    type: str
    choices: [rows, points, none]
    default: rows
    version_added: 0.2.0
  poll_grace:
    description:
      - How long the launcher may not answer before the task fails, in seconds. The run continues all the time.
        The task returns the points that have finished until then.
      - Used with O(state=finished).
    type: float
    default: 60
requirements:
  - Open MPI 4 or 5 on all nodes, the same everywhere
seealso:
  - module: gpufabric.nccl.mpi_hostfile
  - module: gpufabric.nccl.nccl_result
"""

EXAMPLES = r"""
- name: Run a benchmark over the hosts of the hostfile
  gpufabric.nccl.mpi_run:
    points:
      - argv: [/opt/nccl-tests/build/all_reduce_perf, -b, "8", -e, 1G, -f, "2"]
        env:
          NCCL_DEBUG: INFO
    control_interface: eth0
    data_interface: net1
  register: benchmark

- name: End a run that was started elsewhere
  gpufabric.nccl.mpi_run:
    run_id: night
    state: stopped

- name: Remove its files
  gpufabric.nccl.mpi_run:
    state: absent
"""

RETURN = r"""
points:
  description: The result of each point.
  returned: O(state=finished) or O(state=started), or O(state=stopped) if there was a run
  type: list
  elements: dict
  contains:
    id:
      description: The point's id.
      type: str
      sample: all_reduce_perf
    name:
      description: The point's name.
      type: str
      sample: all_reduce_perf
    env:
      description: The point's own environment variables. Of those that are not known as settings of NCCL or MPI, not the values.
      type: dict
      sample: {NCCL_ALGO: Ring}
    ranks:
      description: Number of its ranks on all hosts together.
      type: int
      sample: 16
    ranks_per_node:
      description: Number of ranks on each host; V(null) if each host takes as many as it has slots.
      type: int
      sample: 8
    status:
      description:
        - V(finished), V(failed) (the program or mpirun failed, or hosts or ranks were missing) or V(timeout).
        - V(stopped) if it was ended, or if its result was lost. V(not_run) for the points after it, and for those that O(time_limit) left
          out.
        - V(started) with O(state=started), and V(planned) in check mode.
      type: str
      sample: finished
    exit_status:
      description: Exit status of mpirun; V(null) if it was ended or has not ended yet.
      type: int
      sample: 0
    duration:
      description: How long it took, in seconds; V(null) if that is unknown.
      returned: when it has begun and ended
      type: float
      sample: 12.345
    stdout_path:
      description: The file on the launcher with its standard output. The name ends with C(.gz) if the file is compressed.
      type: str
      sample: /run/gpufabric/default/mpi/points/1/stdout
    stderr_path:
      description: The same for its standard error.
      type: str
      sample: /run/gpufabric/default/mpi/points/1/stderr
    command:
      description: The command line of mpirun.
      type: list
      elements: str
      sample: [/usr/bin/mpirun, --prefix, /usr, --hostfile, /run/gpufabric/default/mpi/hostfile]
    problems:
      description: What went wrong.
      type: list
      elements: dict
      contains:
        id:
          description: The cause, as L(troubleshooting,https://github.com/gpufabric/gpufabric.nccl/blob/main/docs/troubleshooting.md) describes it.
          type: str
          sample: connect-refused
        severity: {description: V(error) or V(warning)., type: str, sample: error}
        host: {description: The host or pod that has the problem; V(null) if no single one has it., type: str, sample: gpu-2}
        cause: {description: What is wrong., type: str, sample: Nothing listens on 10.0.0.12 port 22.}
        cure: {description: What to do., type: str, sample: Start sshd there.}
        evidence: {description: The output or value that shows it; may be empty., type: str, sample: Connection refused}
    said:
      description: Of a point that did not finish, the last lines that it printed.
      type: list
      elements: str
      sample: ["gpu-2: Test NCCL failure common.cu:1005 'unhandled system error'"]
    results:
      description: The tests of an nccl-tests program, each a result document as M(gpufabric.nccl.nccl_result) returns it.
      type: list
      elements: dict
      sample: [{schema: gpufabric.nccl/result/v1, collective: all_reduce, complete: true, verdict: pass}]
    unread:
      description: Why there is no result; V(null) if there is one.
      type: str
      sample: the point did not finish
    resumed:
      description: Whether it finished in an earlier run and was not run again.
      type: bool
      sample: false
    output:
      description: The output on the controller.
      returned: with O(fetch_dest)
      type: dict
      contains:
        archive: {description: Path of the compressed file., type: str, sample: /var/tmp/nccl/output.tar.gz}
        stdout: {description: Path of the standard output in it., type: str, sample: points/1/stdout}
        stderr: {description: Path of the standard error in it., type: str, sample: points/1/stderr}
complete:
  description: Whether all points finished.
  returned: as RV(points)
  type: bool
  sample: true
limited:
  description: Whether O(time_limit) was reached before all points had started.
  returned: as RV(points)
  type: bool
  sample: false
reaped:
  description: The hosts on which a point that did not finish left processes, and those that could not be reached.
  returned: as RV(points)
  type: list
  elements: dict
  contains:
    host: {description: The host., type: str, sample: gpu-2}
    ended: {description: Names of the processes that were ended., type: list, elements: str, sample: [all_reduce_perf]}
    error: {description: Why it is unknown what is left there; V(null) if it is known., type: str, sample: no answer within 20 s}
followed:
  description: Whether the call followed a run that was already started, rather than starting one.
  returned: O(state=finished) or O(state=started)
  type: bool
  sample: false
notes:
  description:
    - Settings of O(mca), O(points[].env), the environment or files of Open MPI on the launcher that the module changes or leaves out,
      and why, such as parameters without effect in this version.
  returned: O(state=finished) or O(state=started)
  type: list
  elements: str
  sample: ["mca: orte_abort_timeout is left out, for no version from 4.0 on has it; set a time-out of the run instead"]
runner:
  description: The process on the launcher that runs the points.
  returned: O(state=started), not in check mode
  type: dict
  contains:
    pid:
      description: Its pid.
      type: int
      sample: 4711
    start:
      description: When it began, in clock ticks since the launcher booted.
      type: int
      sample: 1234567
    directory:
      description: The directory that it writes to.
      type: str
      sample: /run/gpufabric/default/mpi
"""

import os

from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.launch import ARGUMENT_SPEC, describe, make_plan
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import QuietModule, run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.points import parse_files
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.run_files import Run
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.runner import go_through
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import remove_replaced
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import Account


def run(params: dict, check_mode: bool) -> dict:
    """Bring the run to its state; what the module returns. Raises GpufabricError."""
    os.umask(0o077)
    run_dir = RunDir(params["run_id"], params["run_dir"])
    files = Run(run_dir)
    ownership = Ownership(run_dir, params["claim"])
    if params["state"] == "absent":
        ownership.check(removes=True)
        changed = files.exists()
        if changed and not check_mode:
            files.remove()
        return {"changed": changed}
    if params["state"] == "prepared":
        texts = parse_files(params["files"])
        replaced = remove_replaced(ownership, run_dir, check_mode)
        if not check_mode:
            ownership.take()
        return {"changed": files.prepare(texts, check_mode) or replaced}
    if params["state"] == "stopped":
        lost = ownership.loss()
        if lost is not None:
            raise ProblemError(lost)
        changed = files.has_to_stop()
        return {"changed": changed, **({} if check_mode else files.stop())}
    return start(params, files, run_dir, check_mode)


def start(params: dict, files: Run, run_dir: RunDir, check_mode: bool) -> dict:
    """Start the run, or find the one that goes on already; what the module returns. Raises GpufabricError."""
    claim = params["claim"] and {**params["claim"], "take_over": False}
    ownership = Ownership(run_dir, claim)
    ownership.check()
    account = Account(run_dir)
    plan, noted = make_plan(params, run_dir, account, check_mode)
    result = {"changed": True, "complete": False, "limited": False, "reaped": [], "notes": noted}
    if check_mode:
        result["followed"] = files.can_follow(plan)
    else:
        ownership.take()
        account.create()
        result["followed"] = files.start(plan, go_through, params["resume"], archive=params["fetch_dest"] is not None)
        runner = files.runner()
        result.update({"runner": runner} if runner else {})
    return {**result, "points": describe(plan, files, check_mode)}


def main() -> None:
    """Run the module."""
    module = QuietModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[("state", "finished", ["points"]), ("state", "started", ["points"])],
        supports_check_mode=True,
    )
    run_module(module, run, CATALOGUE.problems_in)


if __name__ == "__main__":
    main()
