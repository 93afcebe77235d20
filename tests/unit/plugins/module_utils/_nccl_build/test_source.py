# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import io
import itertools
import subprocess
import tarfile
import threading

import pytest
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build import source as source_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.source import (
    DEFAULT_CHECKSUM,
    DEFAULT_URL,
    check_address,
    clone,
    download,
    parse_source,
    source_directory,
    unpack,
)


def archive(*members, mode="w:gz"):
    """An archive of members: a name, or a TarInfo."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as file:
        for member in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            content = b"text" if info.isreg() else b""
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return data.getvalue()


def link(name, target, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def base64_of(data):
    return base64.b64encode(data).decode()


def test_the_default_has_a_checksum():
    source = parse_source(None, None, None, None, None)
    assert (source.url, source.checksum) == (DEFAULT_URL, DEFAULT_CHECKSUM)
    # Whichever way an archive comes, it is the same source.
    assert source.identity() == {"sha256": DEFAULT_CHECKSUM}


def test_an_archive_of_the_controller():
    data = archive("a/src/Makefile")
    checksum = hashlib.sha256(data).hexdigest()
    for given in (None, checksum, f"sha256:{checksum.upper()}"):
        assert parse_source(base64_of(data), None, given, None, None).checksum == checksum
    with pytest.raises(ProblemError) as caught:
        parse_source(base64_of(data + b"x"), None, checksum, None, None)
    assert [problem.id for problem in caught.value.problems] == ["build-source-differs"]
    with pytest.raises(NodeError, match="did not come whole"):
        parse_source("no base64!", None, None, None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "https://x/y.tar.gz", None, None, None), "checksum: None is not allowed; allowed: the SHA-256"),
        ((None, "https://x/y.tar.gz", "abc", None, None), "checksum: 'abc' is not allowed"),
        ((None, "file:///etc/passwd", "0" * 64, None, None), "url: 'file:///etc/passwd' is not allowed"),
        # What urllib cannot take apart.
        ((None, "https://[abc/x", "0" * 64, None, None), "url: 'https://[abc/x' is not allowed"),
        ((None, "https:///x", "0" * 64, None, None), "url: 'https:///x' is not allowed"),
        ((None, None, None, "ext::sh -c id", "main"), "git_url: 'ext::sh -c id' is not allowed"),
        ((None, None, None, "--upload-pack=id", "main"), "git_url: '--upload-pack=id' is not allowed"),
        ((None, None, None, "https://x/y", "--output=x"), "git_ref: '--output=x' is not allowed"),
        ((None, None, None, "https://x/y", None), "git_ref: None is not allowed"),
    ],
)
def test_sources_that_are_refused(arguments, message):
    with pytest.raises(OptionError) as caught:
        parse_source(*arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:s3cret@host/x.git", "https://***@host/x.git"),
        ("https://s3cret@host:8443/x", "https://***@host:8443/x"),
        ("HTTP://u:s3cret@[::1]:80/x", "HTTP://***@[::1]:80/x"),
        ("ssh://git:s3cret@host/x", "ssh://***@host/x"),
        ("git://s3cret@host/x", "git://***@host/x"),
        # Characters that end a host elsewhere.
        ("https://u:s3/cret@host/x", "https://***@host/x"),
        ("https://u:s3#cret@host/x", "https://***@host/x"),
        ("https://u:s3@s3cret@host/x", "https://***@host/x"),
        ("https://u:s3 cret@host/x", "https://***@host/x"),
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(address, shown):
    for arguments in ((None, address, "0" * 64, None, None), (None, None, None, address, "main")):
        with pytest.raises(OptionError) as caught:
            parse_source(*arguments)
        text = str(caught.value)
        assert f"url: {shown!r} is not allowed" in text and "cret" not in text


@pytest.mark.parametrize("place", ["u:s3cret@host:x", "ext::https://u:s3cret@host/x", "s3cret@host@"])
def test_what_is_no_address_is_shown_without_a_password(place):
    with pytest.raises(OptionError) as caught:
        parse_source(None, None, None, place, "main")
    assert "git_url: " in str(caught.value) and "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "https://host:8443/group/x@1.2.tar.gz?a=b@c",
        "https://[2001:db8::1]:443/x",
        "ssh://git@host:2222/x",
        "git@host:group/x.git",
        "file:///srv/a@b",
        "/srv/a@b",
        DEFAULT_URL,
    ],
)
def test_addresses_without_a_password(address):
    check_address("url", address)


@pytest.mark.parametrize("top", ["nccl-tests-2.19.6/", "./nccl-tests/", ""])
def test_unpacking(tmp_path, top):
    unpack(archive(f"{top}src/Makefile", f"{top}src/common.cu"), str(tmp_path))
    found = source_directory(str(tmp_path))
    assert sorted(path.name for path in (tmp_path / found / "src").iterdir()) == ["Makefile", "common.cu"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["../evil"], "leads out of it: '../evil'"),
        (["a/../../evil"], "leads out of it"),
        (["/etc/evil"], "leads out of it: '/etc/evil'"),
        ([link("a/link", "/etc", tarfile.SYMTYPE)], "'a/link', which is neither a file nor a directory"),
        ([link("a/link", "/etc/passwd", tarfile.LNKTYPE)], "neither a file nor a directory"),
        ([link("a/null", "", tarfile.CHRTYPE)], "neither a file nor a directory"),
        (["a/twice", "a/twice"], "cannot be unpacked"),
    ],
)
def test_archives_that_are_refused(tmp_path, members, message):
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(NodeError) as caught:
        unpack(archive(*members), str(inner))
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]


@pytest.mark.parametrize(("limit", "value"), [("_MOST_FILES", 1), ("_MOST_UNPACKED", 7)])
def test_an_archive_that_is_too_large_is_refused(tmp_path, monkeypatch, limit, value):
    data = archive("a/src/Makefile", "a/src/all_reduce.cu")
    unpack(data, str(tmp_path / "whole"))
    monkeypatch.setattr(source_module, limit, value)
    with pytest.raises(NodeError, match="it is not nccl-tests"):
        unpack(data, str(tmp_path / "part"))


def test_what_is_no_archive(tmp_path):
    for data in (b"", b"text", archive("a/src/Makefile")[:40]):
        with pytest.raises(NodeError, match="cannot be unpacked"):
            unpack(data, str(tmp_path))
    unpack(archive("a/README"), str(tmp_path))
    with pytest.raises(NodeError, match="has no src/Makefile"):
        source_directory(str(tmp_path))


def test_an_address_that_nobody_answers():
    with pytest.raises(ProblemError) as caught:
        download("http://127.0.0.1:1/x.tar.gz", "0" * 64)
    (problem,) = caught.value.problems
    assert problem.id == "build-source-unreachable" and "127.0.0.1" in problem.cause


@pytest.fixture
def served():
    """The address of a server that answers with an iterable of blocks, of which it may say how many bytes they are."""
    blocks, servers, length = [], [], None

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            try:
                for block in blocks:
                    self.wfile.write(block)
                    self.wfile.flush()
            except OSError:
                pass

        def log_message(self, *_arguments):
            """Say nothing."""

    def serve(given, size=None):
        nonlocal blocks, length
        blocks, length = given, size
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/x.tar.gz"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def netrc(tmp_path, monkeypatch):
    """Writes the ~/.netrc of the user."""
    path = tmp_path / ".netrc"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)

    def write(text):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return path

    return write


def test_a_password_goes_only_to_its_own_host(netrc, monkeypatch):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.headers["Host"].partition(":")[0], self.headers["Authorization"]))
            places = {"/first": "/same", "/same": f"http://localhost:{server.server_port}/other", "/round": "/round"}
            self.send_response(302 if self.path in places else 200)
            self.send_header("Location", places.get(self.path, ""))
            self.end_headers()

        def log_message(self, *_arguments):
            """Say nothing."""

    # Nor does the one of another host go to where nobody has asked for.
    netrc("machine 127.0.0.1 login me password s3cret\nmachine localhost login me password other\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        download(f"http://127.0.0.1:{server.server_port}/first", hashlib.sha256(b"").hexdigest())
        authorization = f"Basic {base64_of(b'me:s3cret')}"
        assert asked == [("127.0.0.1", authorization), ("127.0.0.1", authorization), ("localhost", None)]
        with pytest.raises(ProblemError, match="redirected more than 10 times"):
            download(f"http://127.0.0.1:{server.server_port}/round", hashlib.sha256(b"").hexdigest())
        server.shutdown()


def test_what_is_wrong_in_a_list_of_passwords_is_not_shown(netrc):
    path = netrc("machine a login b\npassword no s3cret word\n")
    with pytest.raises(ProblemError) as caught:
        download("http://127.0.0.1:1/x.tar.gz", "0" * 64)
    (problem,) = caught.value.problems
    assert f"{path} cannot be read, because of its line 2" in problem.evidence and "cret" not in str(problem)


def test_a_download(served, monkeypatch):
    data = archive("a/src/Makefile")
    assert download(served([data[:10], data[10:]]), hashlib.sha256(data).hexdigest()) == data
    monkeypatch.setattr(source_module, "_MOST_ARCHIVE", 1 << 20)
    # More than it may take would never end.
    with pytest.raises(NodeError, match="is larger than 1 MiB"):
        download(served(itertools.repeat(b"x" * 4096)), "0" * 64)


def test_a_download_that_drips_is_given_up(served, monkeypatch):
    over = threading.Event()

    def drip():
        while not over.wait(0.05):
            yield b"x"

    monkeypatch.setattr(source_module, "_DOWNLOAD_TIMEOUT", 1.0)
    try:
        with pytest.raises(ProblemError) as caught:
            download(served(drip()), "0" * 64)
        # Whoever notices first: a part is no other source.
        monkeypatch.setattr(source_module, "_DOWNLOAD_TIMEOUT", 0.1)
        assert str(source_module._fetch(served(drip()))) == "not finished after 0.1 s"
    finally:
        over.set()
    (problem,) = caught.value.problems
    assert problem.id == "build-source-unreachable" and "not finished after 1 s" in problem.evidence


def test_a_download_that_is_cut_off_is_no_other_source(served):
    with pytest.raises(ProblemError) as caught:
        download(served([b"x" * 10], 15), "0" * 64)
    (problem,) = caught.value.problems
    assert problem.id == "build-source-unreachable" and "it ended 5 bytes before its end" in problem.evidence


def test_git(tmp_path):
    """A tag, a branch and a commit of a real repository."""

    def git(*arguments):
        options = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *options, *arguments], cwd=repository, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    repository = tmp_path / "repository"
    (repository / "src").mkdir(parents=True)
    (repository / "src/Makefile").write_text("all:\n")
    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    git("commit", "--quiet", "--message=one")
    git("tag", "--annotate", "--message=v", "v1")
    git("tag", "light")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    commit = git("rev-parse", "HEAD")
    url = f"file://{repository}"
    for reference in ("v1", "light", "main", commit):
        assert parse_source(None, None, None, url, reference).identity() == {"commit": commit}
    with pytest.raises(OptionError, match="git_ref: 'v2' is not allowed; allowed: a tag or branch of file://"):
        parse_source(None, None, None, url, "v2")
    with pytest.raises(ProblemError) as caught:
        parse_source(None, None, None, f"{url}-none", "main")
    assert caught.value.problems[0].id == "build-source-unreachable"
    target = tmp_path / "clone"
    target.mkdir()
    clone(url, commit, str(target))
    assert source_directory(str(target)) == str(target)


def test_a_damaged_archive_is_no_traceback(tmp_path):
    whole = bytearray(archive(*(f"top/{number}" for number in range(200))))
    for place in range(20, len(whole), 7):
        damaged = bytes(whole[:place] + b"\xff\xff\xff" + whole[place + 3 :])
        directory = tmp_path / str(place)
        directory.mkdir()
        # It is whole in spite of that, or there is this error and no other.
        with contextlib.suppress(NodeError):
            unpack(damaged, str(directory))


def test_a_token_in_a_query_is_not_shown():
    secret = "https://127.0.0.1:1/x.tgz?private_token=s3cret"
    with pytest.raises(ProblemError) as raised:
        download(secret, "0" * 64)
    told = str([problem.as_dict() for problem in raised.value.problems])
    assert "s3cret" not in told and "https://127.0.0.1:1/x.tgz?***" in told
    with pytest.raises(OptionError, match="git_url: ") as refused:
        parse_source(None, None, None, secret, "v1")
    assert "s3cret" not in str(refused.value)
