# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import multiprocessing

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh import account as _account
from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.account import (
    Account,
    allowed_users,
    check_user_name,
    find_line,
    lets_log_in,
    library_in_ldconfig,
    render_line,
    with_line,
    without_line,
)

UID = 1000680000
IMAGE = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"


def line(run_id, uid=UID):
    return render_line(uid, 0, f"/tmp/gpufabric-{uid}/{run_id}", "/home/user", "/bin/bash")


def test_line_has_the_seven_fields_of_passwd():
    assert line("blue").rstrip("\n").split(":") == [
        "gpufabric-1000680000",
        "x",
        "1000680000",
        "0",
        "gpufabric.nccl /tmp/gpufabric-1000680000/blue",
        "/home/user",
        "/bin/bash",
    ]


def test_each_run_has_its_own_line():
    both = with_line(with_line(IMAGE, line("blue")), line("green"))
    assert find_line(both, UID, "/tmp/gpufabric-1000680000/blue") == line("blue")
    assert find_line(both, UID, "/tmp/gpufabric-1000680000/green") == line("green")
    assert without_line(both, UID, "/tmp/gpufabric-1000680000/blue") == IMAGE + line("green")
    assert without_line(both, UID, "/tmp/gpufabric-1000680000/green") == IMAGE + line("blue")


@pytest.mark.parametrize(
    ("uid", "path"),
    [(UID, "/tmp/gpufabric-1000680000/blu"), (UID, "/tmp/gpufabric-1000680000/blue2"), (1, "/tmp/gpufabric-1/blue")],
)
def test_nothing_else_is_taken_for_the_line(uid, path):
    text = with_line(IMAGE, line("blue"))
    assert find_line(text, uid, path) is None
    assert without_line(text, uid, path) == text


def test_line_of_somebody_else_with_the_mark_stays():
    text = IMAGE + "alice:x:1000680000:0:gpufabric.nccl /r:/home/alice:/bin/bash\n"
    assert find_line(text, UID, "/r") is None and without_line(text, UID, "/r") == text


def test_line_begins_a_line_of_its_own():
    assert with_line("root:x:0:0::/root:/bin/sh", line("a")) == "root:x:0:0::/root:/bin/sh\n" + line("a")
    assert with_line("", line("a")) == line("a")


@pytest.mark.parametrize(
    "name", ["root", "4321", "gpufabric-1000680000", "bench@corp.example", "CORP\\bench", "CORP+b.e-n_ch", "_apt"]
)
def test_names_of_accounts_and_of_those_of_a_domain(name):
    check_user_name(name)
    # In sshd_config(5), a pattern with a @ is a user and his host.
    assert "@" not in allowed_users(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "a b",
            'a"b',
            "a'b",
            "a\n",
            "a\tb",
            "-oProxyCommand=x",
            "a\\\\b",
            "\\a",
            "a\\",
            "a\\'b",
            "CORP\\-b",
            "*",
            "!a",
        ),
        *("a?", "a%h", "${A}", "#a", "a@", "a@b@c", "a@-b", "CORP\\a\\b", "a" * 65, "\u00fc", "a:b", "\udcff"),
    ],
)
def test_a_name_that_ssh_cannot_be_told_is_shown_with_the_way_out(name):
    with pytest.raises(ProblemError) as refused:
        check_user_name(name)
    (problem,) = refused.value.problems
    assert problem.id == "account-name" and repr(name) in problem.cause and "another account" in problem.cure


@pytest.mark.parametrize(
    ("shell", "lets"),
    [("/bin/bash", True), ("", True), ("/sbin/nologin", False), ("/usr/sbin/nologin", False), ("/bin/false", False)],
)
def test_lets_log_in(shell, lets):
    assert lets_log_in(shell) is lets


LDCONFIG = """\
1007 libs found in cache `/etc/ld.so.cache'
\tlibnss_systemd.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnss_systemd.so.2
\tlibnss_wrapper.so.0 (libc6,x86-64) => /opt/wrappers/libnss_wrapper.so.0
\tlibnsl.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnsl.so.1
"""


def test_library_in_ldconfig():
    assert library_in_ldconfig(LDCONFIG) == "/opt/wrappers/libnss_wrapper.so.0"
    assert library_in_ldconfig(LDCONFIG.replace("libnss_wrapper", "libuid_wrapper")) is None
    assert library_in_ldconfig("") is None


@pytest.fixture
def account(monkeypatch, tmp_path):
    """Makes the account of a uid without an entry, on a node with the passwd given."""
    passwd = tmp_path / "passwd"
    passwd.write_text(IMAGE)
    monkeypatch.setattr(_account, "PASSWD", str(passwd))
    monkeypatch.setattr(_account, "passwd_entry", lambda uid: None)

    def make(run_id="blue", writable=True, library=None):
        monkeypatch.setattr(_account.os, "access", lambda path, mode: writable or path != str(passwd))
        monkeypatch.setattr(_account, "find_library", lambda: library)
        return Account(RunDir(run_id, str(tmp_path / run_id)))

    make.passwd = passwd
    return make


def test_line_is_written_once_and_taken_away_alone(account):
    blue, green = account("blue"), account("green")
    blue.create()
    green.create()
    again = account("blue")
    assert again.line == again.found == blue.line and again.in_passwd() and again.environment == {}
    again.create()
    assert account.passwd.read_text() == IMAGE + blue.line + green.line
    again.remove()
    assert account.passwd.read_text() == IMAGE + green.line and not account("blue").in_passwd()
    green.remove()
    assert account.passwd.read_text() == IMAGE


def come_and_go(account, run_id):
    for _turn in range(100):
        account(run_id).create()
        assert account(run_id).in_passwd()
        account(run_id).remove()
        assert not account(run_id).in_passwd()


def test_runs_that_come_and_go_at_the_same_time_do_not_spoil_the_file(account):
    stays = account("stays")
    stays.create()
    # Forked, so that they have the file that the fixture made.
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=come_and_go, args=(account, f"run{number}")) for number in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0] * 4
    assert account.passwd.read_text() == IMAGE + stays.line


def test_library_sees_the_line_where_passwd_is_not_writable(account):
    made = account(writable=False, library="/lib/libnss_wrapper.so")
    assert not made.found
    made.create()
    found = account(writable=False, library="/lib/libnss_wrapper.so")
    assert found.found == found.line == made.line and not found.in_passwd()
    assert found.environment["LD_PRELOAD"] == "/lib/libnss_wrapper.so"
    with open(found.environment["NSS_WRAPPER_PASSWD"]) as file:
        assert file.read() == IMAGE + made.line
    assert account.passwd.read_text() == IMAGE
    # What was begun one way goes on that way.
    assert account(writable=True, library="/lib/libnss_wrapper.so").environment == found.environment


def test_library_comes_before_a_passwd_that_is_writable(account):
    made = account(writable=True, library="/lib/libnss_wrapper.so")
    made.create()
    assert account.passwd.read_text() == IMAGE and made.environment["LD_PRELOAD"] == "/lib/libnss_wrapper.so"
    # A run that has its line in passwd keeps it there.
    account.passwd.write_text(
        IMAGE + render_line(made._uid, 0, made._run_dir.path.replace("blue", "old"), "/", "/bin/sh")
    )
    assert account("old", library="/lib/libnss_wrapper.so").environment == {}


def test_other_libraries_stay_preloaded(account):
    environment = account(writable=False, library="/lib/libnss_wrapper.so").added_to({"A": "1", "LD_PRELOAD": "/x.so"})
    assert environment["LD_PRELOAD"] == "/lib/libnss_wrapper.so:/x.so" and environment["A"] == "1"
    assert account(writable=True).added_to({"LD_PRELOAD": "/x.so"}) == {"LD_PRELOAD": "/x.so"}


def test_one_error_says_what_to_install(account):
    neither = account(writable=False)
    with pytest.raises(NodeError, match="apt-get install libnss-wrapper") as raised:
        neither.create()
    assert "\n" not in str(raised.value)
    assert account.passwd.read_text() == IMAGE
