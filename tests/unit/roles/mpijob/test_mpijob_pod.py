# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Functions of the script of an MPIJob's pods, with programs in place of getent and ssh that answer as the test says."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parents[4] / "roles/mpijob/files/mpijob-pod"

#: The name of a worker has the address of an earlier pod, and after two questions that of the worker.
GETENT = """#!/bin/bash
echo x >>"$0.calls"
case $2 in
  late.*) (($(wc -l <"$0.calls") > 3)) || exit 2; echo "10.0.0.3 $2" ;;
  short.*.svc) exit 2 ;;
  short.*) echo "10.0.0.4 $2" ;;
  *) if (($(wc -l <"$0.calls") > 2)); then echo "10.0.0.2 $2"; else echo "10.0.0.1 $2"; fi ;;
esac
"""
SSH = """#!/bin/bash
case $* in *10.0.0.1*) echo "%s" >&2; exit 255;; esac
"""


@pytest.fixture
def call(tmp_path):
    """What functions of the script print. ``said``: what ssh says at the address of the earlier pod."""

    def run(body, said="Host key verification failed.", **environment):
        programs = {"getent": GETENT, "ssh": SSH % said, "sleep": "#!/bin/bash\n"}
        for name, text in programs.items():
            path = tmp_path / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        (tmp_path / "ssh").mkdir(exist_ok=True)
        functions = SCRIPT.read_text().partition("\nrole=${1:-}")[0].replace("run=/run/gpufabric", f"run={tmp_path}")
        command = ["bash", "-c", f"{functions}\ndomain=cluster.local names=() slots=() addresses=()\n{body}"]
        path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
        done = subprocess.run(
            command, env={"PATH": path, **environment}, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.stderr == "", done.stderr
        return done.stdout

    return run


WAIT = 'names=(w-0.j.gpu.svc); wait_for_names; wait_for_all_sshd; echo "at ${addresses[0]}"'


@pytest.mark.parametrize("said", ["Host key verification failed.", "ssh: connect to host 10.0.0.1: Connection refused"])
def test_an_address_of_an_earlier_pod_is_given_up_when_the_name_has_another(call, said):
    printed = call(WAIT, said, GPUFABRIC_PINNED="true")
    assert "DNS OK w-0.j.gpu.svc 10.0.0.1\n" in printed
    assert "DNS OK w-0.j.gpu.svc 10.0.0.2, no longer 10.0.0.1" in printed
    assert printed.endswith("at 10.0.0.2\n")


def test_a_worker_that_has_the_jobs_host_key_and_refuses_is_named_at_once(call):
    printed = call(WAIT, "Permission denied (publickey).", GPUFABRIC_PINNED="true")
    assert "worker w-0 at 10.0.0.1: Permission denied (publickey)." in printed
    assert "failed ssh w-0" in printed and "no longer" not in printed


def test_names_that_are_waited_for_are_shown(call):
    printed = call("names=(late.j.gpu.svc short.j.gpu.svc); wait_for_names").splitlines()
    assert printed[0] == "gpufabric-mpijob: DNS OK short.j.gpu.svc 10.0.0.4"
    assert printed[1] == "gpufabric-mpijob: DNS WAIT 1 of 2: late.j.gpu.svc"
    assert printed[-1].startswith("gpufabric-mpijob: DNS OK late.j.gpu.svc 10.0.0.3")


HOSTFILE = """\
# made by the operator

w-0.j.gpu.svc slots=2
  # another
w-1.j.gpu.svc
other.example"""
READ = 'hostfile={path}; read_hostfile; echo "${{names[*]}} ${{slots[*]}}"'


@pytest.mark.parametrize(
    ("rewrite", "suffix"), [({}, ""), ("auto", ""), ("false", ""), ("true", ".cluster.local")], ids=str
)
def test_names_of_the_hostfile_are_rewritten_if_that_is_asked_for(call, tmp_path, rewrite, suffix):
    path = tmp_path / "hostfile"
    path.write_text(HOSTFILE)
    environment = {"REWRITE_MPI_HOSTFILE_FQDN": rewrite} if rewrite else {}
    printed = call(READ.format(path=path), GPUFABRIC_WORKERS="3", **environment)
    # A name outside the cluster stays, and a worker without slots has one.
    assert printed == f"w-0.j.gpu.svc{suffix} w-1.j.gpu.svc{suffix} other.example 2 1 1\n"
    refused = call(READ.format(path=path), GPUFABRIC_WORKERS="4", **environment)
    assert refused == f"gpufabric-mpijob: failed hostfile {path} lists 3 workers, 4 were asked for\n"


@pytest.mark.parametrize(("rewrite", "found"), [("auto", True), ("false", False)])
def test_a_short_name_that_does_not_resolve_is_tried_in_full(call, tmp_path, rewrite, found):
    (tmp_path / "hostfile").write_text("short.j.gpu.svc slots=1\n")
    body = f"names=(short.j.gpu.svc) hostfile={tmp_path}/hostfile; wait_for_names"
    printed = call(body, REWRITE_MPI_HOSTFILE_FQDN=rewrite, MPI_DNS_WAIT_SECONDS="0")
    assert ("DNS OK short.j.gpu.svc 10.0.0.4" in printed) is found
    assert ("failed names short.j.gpu.svc" in printed) is not found
    if not found:
        # What the launcher sees of names.
        assert f"--- {tmp_path}/hostfile ---\nshort.j.gpu.svc slots=1\n--- /etc/resolv.conf ---\n" in printed
        assert "--- /etc/hosts ---\n" in printed


def test_variables_that_match_are_handed_to_the_ranks_of_all_workers(call):
    body = "mpirun=echo prefix=/usr options=(--bind-to none); run_mpirun 9 --np 2 all_reduce_perf -b 8"
    variables = {"GPUFABRIC_FORWARD_ENV": "PATH NCCL_* MINE", "NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "a b", "MINE": ""}
    words = call(body, **variables, MINE_TOO="1", OTHER="1").split()
    assert words[: words.index("-x")] == f"--prefix /usr --hostfile {words[3]} --bind-to none".split()
    forwarded = [after for word, after in zip(words, words[1:]) if word == "-x"]
    # By name alone: a value may be any text.
    assert sorted(forwarded) == ["MINE", "NCCL_DEBUG", "NCCL_IB_HCA", "PATH"]
    assert words[-5:] == ["--np", "2", "all_reduce_perf", "-b", "8"]


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("w-1.j.gpu.svc w-0", "2 hosts take part: w-0 w-1.j.gpu.svc"),
        # As Open MPI 5 does without its hostfile.
        ("launcher launcher", "failed hosts 1 of 2 took part: launcher; missing: w-0 w-1"),
        ("w-1.j.gpu.svc w-1.j.gpu.svc", "failed hosts 1 of 2 took part: w-1.j.gpu.svc; missing: w-0"),
    ],
)
def test_all_workers_take_part_or_are_named(call, tmp_path, printed, told):
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(f"#!/bin/bash\nprintf '%s\\n' {printed}\n")
    mpirun.chmod(0o755)
    body = f"names=(w-0.j.gpu.svc w-1.j.gpu.svc) mpirun={mpirun} prefix={tmp_path} options=(); prove_hosts"
    assert call(body).splitlines()[-1] == f"gpufabric-mpijob: {told}"


#: Prints so many lines of 1000 bytes, and how it was called.
FLOOD = """#!/bin/bash
trap 'echo ended; exit 9' TERM
for ((i = 0; i < LINES_OF_IT; i++)); do printf '%0998d\\n' "$i"; done
[[ LINES_OF_IT -lt 9000 ]] || while sleep 0.05; do printf '%0998d\\n' "$i"; done
echo 'gpufabric-mpijob: end all_reduce 0 0'
"""
LAUNCH = """
copy_key() { :; }; write_ssh_config() { :; }; read_hostfile() { names=(); }; wait_for_names() { :; }; wait_for_all_sshd() { :; }
prove_hosts() { :; }; find_mpirun() { mpirun=$RUNS prefix=/usr; }; find_benchmark() { program=(all_reduce_perf); }
run_launcher --bind-to none -- -b 8
"""


@pytest.mark.parametrize(
    ("lines", "limit", "notes"),
    [
        (10, "0", []),
        (10, "20000", []),
        (10, "5000", ["too-long all_reduce"]),
        (5000, "0", []),
        (8900, "0", ["cut all_reduce"]),
        (8900, str(2 << 30), ["cut all_reduce"]),
        (9000, "8900000", ["cut all_reduce", "too-long all_reduce"]),
    ],
)
def test_the_output_of_mpirun_is_bounded(call, tmp_path, lines, limit, notes):
    runs = tmp_path / "mpirun"
    runs.write_text(FLOOD.replace("LINES_OF_IT", str(lines)))
    runs.chmod(0o755)
    printed = call(LAUNCH, RUNS=str(runs), GPUFABRIC_COLLECTIVES="all_reduce", GPUFABRIC_OUTPUT_LIMIT=limit)
    marks = [line for line in printed.splitlines() if line.startswith("gpufabric-mpijob")]
    token = re.match(r"gpufabric-mpijob\[[0-9a-f-]{36}\]: ", marks[0])[0]
    own = [line[len(token) :] for line in marks if line.startswith(token)]
    begin = own.index("begin all_reduce")
    assert own[begin + 1 : -1] == notes
    too_long = "too-long all_reduce" in notes
    assert re.match(rf"end all_reduce {1 if too_long else 0} \d+$", own[-1])
    # What it prints as the launcher would has no token.
    assert ("gpufabric-mpijob: end all_reduce 0 0" in marks) is not too_long
    assert "0" * 990 + "0\n" in printed or (limit == "5000" and "0" * 990 in printed)
    assert len(printed) < min(lines * 1000 + 2000, (6 << 20) + 2000)


def test_many_collectives_print_together_no_more_than_one(call, tmp_path):
    runs = tmp_path / "mpirun"
    runs.write_text("#!/bin/bash\nhead -c 3000000 /dev/zero | tr '\\0' x\n")
    runs.chmod(0o755)
    names = "all_reduce all_gather reduce_scatter broadcast reduce"
    printed = call(LAUNCH, RUNS=str(runs), GPUFABRIC_COLLECTIVES=names)
    assert printed.count(": cut ") == len(re.findall(r" 0 \d+\n", printed)) == 5
    # A kubelet keeps 10 MiB, with 40 bytes of its own for each line.
    assert len(printed) < (6 << 20) + 4000


@pytest.mark.parametrize(("pinned", "strict"), [("true", "yes"), ("false", "accept-new")])
def test_the_host_key_of_a_worker_is_the_jobs_own_key_where_its_sshd_is_the_roles(call, tmp_path, pinned, strict):
    (tmp_path / "id_rsa.pub").write_text("ssh-rsa AAAA comment\n")
    (tmp_path / "ssh_config").write_text("    BatchMode yes\n")
    body = f"auth={tmp_path} files={tmp_path}; write_ssh_config; cat $run/ssh/config; cat $run/ssh/known_hosts 2>&1"
    printed = call(body, GPUFABRIC_PINNED=pinned, GPUFABRIC_SSH_PORT="2222")
    assert f"    StrictHostKeyChecking {strict}\n" in printed
    assert "    BatchMode yes\n    Port 2222\n" in printed and f"    IdentityFile {tmp_path}/ssh/id_rsa\n" in printed
    assert ("\n* ssh-rsa AAAA\n" in printed) is (pinned == "true")


@pytest.mark.parametrize(
    ("effective", "missing"),
    [
        ("000001ffffffffff", ""),
        # Of containerd, of CRI-O, and none.
        ("00000000a80425fb", ""),
        ("00000000000005fb", "SYS_CHROOT"),
        ("0000000000000000", "SETGID SETUID SYS_CHROOT"),
    ],
)
def test_what_sshd_may_not_do_is_known(call, tmp_path, effective, missing):
    (tmp_path / "status").write_text(f"CapPrm:\t0000000000000000\nCapEff:\t{effective}\nCapBnd:\t000001ffffffffff\n")
    assert call(f"missing_capabilities {tmp_path}/status") == missing


def test_the_control_network_is_that_of_the_default_route(call):
    body = 'find_control_network; echo "${OMPI_MCA_btl_tcp_if_include:-} ${PRTE_MCA_prte_if_include:-}"'
    routes = pathlib.Path("/proc/net/route").read_text().splitlines()[1:]
    interface = next((line.split()[0] for line in routes if line.split()[1] == "00000000"), None)
    if interface is None:
        pytest.skip("this machine has no default route")
    assert call(body, GPUFABRIC_FIND_CONTROL="true").endswith(f"\n{interface} {interface}\n")
    # What is set stays.
    given = {"OMPI_MCA_btl_tcp_if_include": "net7", "PRTE_MCA_prte_if_exclude": "lo"}
    assert call(body, GPUFABRIC_FIND_CONTROL="true", **given).endswith("net7 \n")
    assert call(body, GPUFABRIC_FIND_CONTROL="false") == " \n"
