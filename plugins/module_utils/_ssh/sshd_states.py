# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The states that an sshd of a run is brought to, as sshd_instance reports them; in check mode they are predicted."""

from __future__ import annotations

import socket
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._ssh.sshd import (
    Instance,
    Sshd,
    SshdSettings,
    check_port_is_free,
    describe,
    has_limits_of_login,
    render_config,
)


def have_running(
    sshd: Sshd, settings: SshdSettings, restart: bool, timeout: float, check_mode: bool, take: t.Callable[[], None]
) -> dict[str, t.Any]:
    """Start it, or start it again if its settings or its limits differ or ``restart`` is set; what the module returns. Raises GpufabricError.

    ``timeout``: seconds until it must answer. ``take``: marks the run as the caller's, or raises, before anything is changed.
    """
    sshd.run_dir.check()
    sshd.account.check()
    version = sshd.read_version()
    instance = sshd.read()
    port = settings.port or instance.port
    desired = render_config(settings, sshd.run_dir, port, version)
    account_made = sshd.account.found == sshd.account.line
    outdated = instance.pid is not None and not has_limits_of_login(instance.pid)
    changed = restart or outdated or not account_made or instance.pid is None or instance.config != desired
    diff = {
        "before": sshd.account.found + ("# with former limits (ulimit)\n" if outdated else "") + instance.describe(),
        "after": sshd.account.line + describe(desired, running=True),
    }
    # One whose directory was removed meanwhile has the port still, and is ended by the start.
    is_own = instance.config is None and sshd.listener() is not None
    if changed and settings.port and settings.port != instance.port and not is_own:
        check_port_is_free(settings, sshd.run_dir)
    if not check_mode:
        take()
        sshd.cut_log()
    if changed and not check_mode:
        instance = sshd.start(settings, version, port, timeout)
    elif changed:
        instance = Instance(desired, None)
    return {
        "changed": changed,
        "diff": diff,
        "address": settings.address,
        "port": instance.port,
        "pid": instance.pid,
        "user": settings.user,
        "environment": sshd.account.environment,
        "host_public_keys": sshd.host_public_keys(desired),
        "client_public_key": sshd.client_public_key(),
        "hostname": socket.gethostname(),
        "sshd_version": ".".join(map(str, version)),
    }


def have_ended(sshd: Sshd, remove: bool, check_mode: bool) -> dict[str, t.Any]:
    """Stop it, and remove its files if ``remove`` is set; what the module returns. Raises GpufabricError."""
    instance = sshd.read()
    changed = sshd.has_processes() or (remove and sshd.exists())
    before = sshd.account.found + instance.describe()
    after = "" if remove else sshd.account.found + describe(instance.config, running=False)
    if changed and not check_mode:
        if remove:
            sshd.remove()
        else:
            sshd.stop()
    return {"changed": changed, "diff": {"before": before, "after": after}}
