# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.
"""The source of nccl-tests: an archive or a git reference, whose identity is known before anything of it runs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import netrc
import os
import queue
import re
import tarfile
import threading
import time
import typing as t
import urllib.error
import urllib.parse
import zlib

from ansible.module_utils.urls import open_url
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import known_cause
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemError
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_build.toolchain import missing_requirement
from ansible_collections.gpufabric.nccl.plugins.module_utils._process import find_program, run

try:
    from lzma import LZMAError
except ImportError:

    class LZMAError(Exception):  # type: ignore[no-redef]
        """Of a Python that was built without it, and unpacks no such archive."""


#: GitHub's archive of the tag v2.19.6 of NVIDIA/nccl-tests, commit a0b82b2260cf5152b9f8c061bbf7eaf0ba096432. The checksum is that of
#: `git archive --format=tar --prefix=nccl-tests-2.19.6/ v2.19.6 | gzip -cn`, which gives GitHub's bytes: for v2.0.0 it gives the
#: checksum that Spack has recorded of GitHub's archive.
DEFAULT_URL = "https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v2.19.6.tar.gz"
DEFAULT_CHECKSUM = "adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"

#: Bytes of an archive, and of what is in it, and how many files: nccl-tests is 73 KB, 300 KB and 50 files.
_MOST_ARCHIVE, _MOST_UNPACKED, _MOST_FILES = 64 << 20, 256 << 20, 10000
_BLOCK = 1 << 16
#: What a server answers that sends one elsewhere, and how often that may be.
_REDIRECTS, _MOST_REDIRECTS = (301, 302, 303, 307, 308), 10
#: Seconds: of one operation of a socket, of a download as a whole, and of one command of git.
_SOCKET_TIMEOUT = 60.0
_DOWNLOAD_TIMEOUT = 600.0
_GIT_TIMEOUT = 300.0
#: What it takes at most to fetch and unpack a source, in seconds: git works in three commands.
FETCH_TIMEOUT = 1200.0
#: How long the build may take after that, in seconds, if nobody says otherwise.
BUILD_TIMEOUT = 3600

_CHECKSUM = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})\Z")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}\Z")
_URL = re.compile(r"https?://[!-~]+\Z")
#: Of git: no transport that runs a command, and nothing that git takes for an option.
_GIT_URL = re.compile(r"(?:(?:https?|ssh|git|file)://|[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:|/)[!-~]+\Z")
#: Of any address: the scheme, and what is before the path. A password may have the characters that end a host elsewhere.
_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?\Z")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)?(.*@)?(.*)\Z", re.DOTALL)
_GIT_PROTOCOLS = "https:http:ssh:git:file"


class Source(t.NamedTuple):
    """What is built. ``data``: an archive that is here already. Either ``checksum`` or ``commit`` identifies it."""

    data: bytes | None = None
    url: str | None = None
    checksum: str | None = None
    git_url: str | None = None
    commit: str | None = None

    def identity(self) -> dict[str, str]:
        """What of it is recorded: the same whichever way an archive came."""
        return {"commit": self.commit} if self.commit else {"sha256": self.checksum or ""}


def parse_source(
    content: str | None, url: str | None, checksum: str | None, git_url: str | None, git_ref: str | None
) -> Source:
    """The source that options name. ``content``: an archive in base64. Raises GpufabricError; a git reference is looked up."""
    if git_url is not None:
        check_address("git_url", git_url)
        if not _GIT_URL.match(git_url) or "?" in git_url:
            raise OptionError(
                "git_url",
                without_secret(git_url),
                "an address of https, ssh or file, or a path of the node, for git clone",
            )
        if git_ref is None or not _REFERENCE.match(git_ref):
            raise OptionError("git_ref", git_ref, "a tag, a branch or a commit, with git_url")
        return Source(git_url=git_url, commit=resolve_reference(git_url, git_ref))
    wanted = None
    if checksum is not None:
        match = _CHECKSUM.match(checksum)
        if not match:
            raise OptionError("checksum", checksum, "the SHA-256 of the archive, 64 hexadecimal digits")
        wanted = match.group(1).lower()
    if content is not None:
        try:
            data = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise NodeError(f"the archive did not come whole: {error}") from None
        return Source(data=data, checksum=check_data(data, wanted, "the archive"))
    if url is None:
        url, wanted = DEFAULT_URL, wanted or DEFAULT_CHECKSUM
    check_address("url", url)
    if not _URL.match(url) or not _host_in(url):
        raise OptionError("url", without_secret(url), "an address of https or http")
    if wanted is None:
        raise OptionError("checksum", checksum, "the SHA-256 of what is at url, since a build runs it")
    return Source(url=url, checksum=wanted)


def check_address(option: str, address: str, archive: str = "archive") -> None:
    """Raise OptionError if an address has a password or token in it, which would be on screens, in logs, and in lists of processes.

    The user of ssh is no secret. ``archive``: the option that takes an archive of the controller instead.
    """
    match = _AUTHORITY.match(address)
    if match is None:
        return
    user, separator, host = match.group(2).rpartition("@")
    is_secret = bool(separator) and (match.group(1).lower() != "ssh" or ":" in user)
    # A password may have a slash, and is then taken for a port.
    if is_secret or not _HOST.match(host):
        allowed = (
            "an address without user and password, of a host and at most a port. Put user and password into ~/.netrc of the user who"
            f" builds on the node, or set {archive} to an archive on the controller"
        )
        raise OptionError(option, without_secret(address), allowed)


def without_secret(address: str) -> str:
    """An address as it may be shown: without all that could be a user and a password, or a token in a query."""
    scheme, _secret, place = _PARTS.match(address).groups()  # type: ignore[union-attr]
    place, query, _value = place.partition("?")
    return f"{scheme or ''}{'***@' if _secret else ''}{place}{'?***' if query else ''}"


def _host_in(url: str) -> str | None:
    """The host of an address; None where there is none that can be read."""
    try:
        return urllib.parse.urlsplit(url).hostname
    except ValueError:
        return None


def check_data(data: bytes, checksum: str | None, name: str) -> str:
    """The SHA-256 of an archive. Raises ProblemError if it is not the one that is wanted."""
    found = hashlib.sha256(data).hexdigest()
    if checksum is not None and found != checksum:
        raise known_cause("build-source-differs", f"found {found}, wanted {checksum}", name=name)
    return found


def download(url: str, checksum: str) -> bytes:
    """What is at an address, whose checksum is right. Raises NodeError. Proxies are those of the environment, passwords those of ~/.netrc."""
    host, shown = _host_in(url), without_secret(url)
    fetched: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
    # In a thread of its own: a server that sends a byte now and then never runs into the limit of a socket.
    threading.Thread(target=lambda: fetched.put(_fetch(url)), daemon=True).start()
    try:
        data = fetched.get(timeout=_DOWNLOAD_TIMEOUT)
    except queue.Empty:
        words = f"{shown}: not finished after {_DOWNLOAD_TIMEOUT:g} s"
        raise known_cause("build-source-unreachable", words, place=host) from None
    if isinstance(data, Exception):
        words = f"{shown}: {getattr(data, 'reason', None) or data}"
        raise known_cause("build-source-unreachable", words, place=host) from data
    if len(data) > _MOST_ARCHIVE:
        raise NodeError(f"what is at {shown} is larger than {_MOST_ARCHIVE >> 20} MiB")
    check_data(data, checksum, shown)
    return data


def _fetch(url: str) -> bytes | Exception:
    """What is at an address, of an archive that is too large only the beginning; or why it cannot be had."""
    deadline = time.monotonic() + _DOWNLOAD_TIMEOUT
    data = bytearray()
    try:
        with _opened(url) as answer:
            while len(data) <= _MOST_ARCHIVE:
                if time.monotonic() > deadline:
                    return NodeError(f"not finished after {_DOWNLOAD_TIMEOUT:g} s")
                # One that reads as many bytes as it is asked for would wait for them beyond the deadline.
                block = answer.read1(_BLOCK)
                if not block and answer.length:
                    return NodeError(f"it ended {answer.length} bytes before its end")
                if not block:
                    break
                data += block
    except netrc.NetrcParseError as error:
        # What it says has a word of the file, which may be a password.
        return NodeError(f"{error.filename} cannot be read, because of its line {error.lineno}")
    # Whatever it is, the caller waits for it.
    except Exception as error:
        return error
    return bytes(data)


def _opened(url: str) -> t.Any:
    """The answer of a server, after all redirects. Passwords go to the server that was asked for alone. Raises what open_url does."""
    asked = urllib.parse.urlsplit(url)
    for _redirect in range(_MOST_REDIRECTS + 1):
        place = urllib.parse.urlsplit(url)
        is_same = (place.scheme, place.netloc) == (asked.scheme, asked.netloc)
        try:
            return open_url(
                url, timeout=_SOCKET_TIMEOUT, http_agent="gpufabric.nccl", follow_redirects="none", use_netrc=is_same
            )
        except urllib.error.HTTPError as error:
            target = error.headers.get("Location")
            if error.code not in _REDIRECTS or not target:
                raise
            error.close()
            url = urllib.parse.urljoin(url, target)
            if not _URL.match(url):
                raise NodeError("it is redirected to an address that is not one of https or http") from error
    raise NodeError(f"it is redirected more than {_MOST_REDIRECTS} times")


def unpack(data: bytes, directory: str) -> None:
    """Unpack an archive into a directory that is empty: only files and directories, none outside of it, all of them this user's.

    Without the one directory that an archive of a repository has at its top. Raises NodeError.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            size = files = 0
            for member in archive:
                files, size = files + 1, size + member.size
                if files > _MOST_FILES or size > _MOST_UNPACKED:
                    raise NodeError(
                        f"the archive has more than {_MOST_FILES} files, or {_MOST_UNPACKED >> 20} MiB: it is not nccl-tests"
                    )
                parts = _parts(member.name)
                if member.isdir() or not parts:
                    continue
                file = archive.extractfile(member) if member.isreg() else None
                if file is None:
                    raise NodeError(f"the archive has {member.name!r}, which is neither a file nor a directory")
                path = os.path.join(directory, *parts)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "xb") as target:
                    target.write(file.read())
    except (tarfile.TarError, EOFError, OSError, zlib.error, LZMAError) as error:
        raise NodeError(f"the archive cannot be unpacked: {error}") from error


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        raise NodeError(f"the archive has a path that leads out of it: {name!r}")
    return parts


def source_directory(directory: str) -> str:
    """The directory of what was unpacked that has src/Makefile. Raises NodeError."""
    inner = [entry.path for entry in os.scandir(directory) if entry.is_dir()]
    for path in (directory, *(inner if len(inner) == 1 else [])):
        if os.path.isfile(os.path.join(path, "src", "Makefile")):
            return path
    raise NodeError("the source has no src/Makefile: it is not nccl-tests or rccl-tests")


def resolve_reference(url: str, reference: str) -> str:
    """The commit of a tag, branch or commit of a repository. Raises GpufabricError."""
    if _COMMIT.match(reference):
        return reference
    result = _git(
        ["ls-remote", "--", url, f"refs/tags/{reference}^{{}}", f"refs/tags/{reference}", f"refs/heads/{reference}"]
    )
    if result.returncode != 0:
        raise known_cause("build-source-unreachable", result.stderr.strip()[-500:], place=url)
    lines = [line.partition("\t") for line in result.stdout.splitlines()]
    found = {name: commit for commit, _tab, name in lines}
    # An annotated tag has an identity of its own; with ^{} it is that of its commit.
    for name in (f"refs/tags/{reference}^{{}}", f"refs/tags/{reference}", f"refs/heads/{reference}"):
        if _COMMIT.match(found.get(name, "")):
            return found[name]
    raise OptionError("git_ref", reference, f"a tag or branch of {url}, or a commit of 40 hexadecimal digits")


def clone(url: str, commit: str, directory: str) -> None:
    """Bring one commit of a repository into a directory that is empty. Raises GpufabricError."""
    for arguments in (
        ["init", "--quiet", directory],
        ["-C", directory, "fetch", "--quiet", "--depth=1", "--no-tags", "--", url, commit],
        ["-C", directory, "-c", "advice.detachedHead=false", "checkout", "--quiet", commit],
    ):
        result = _git(arguments)
        if result.returncode != 0:
            raise known_cause("build-source-unreachable", result.stderr.strip()[-500:], place=url)


def _git(arguments: t.Sequence[str]) -> t.Any:
    program = find_program("git")
    if program is None:
        raise ProblemError(missing_requirement("git"))
    environment = {
        **os.environ,
        # Nobody is there to type a password.
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "GIT_ALLOW_PROTOCOL": _GIT_PROTOCOLS,
        "LC_ALL": "C",
    }
    # Git's programs for http and ssh wait for a server that says nothing, also without git.
    return run([program, *arguments], timeout=_GIT_TIMEOUT, environment=environment, own_session=True)
