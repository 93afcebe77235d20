# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""What every sshd and every ssh of a run keeps to: on machines, in pods, in the pods of an MPIJob and in the worker image.

containers/worker/entrypoint.py stands alone and has a copy of SSHD_POLICY; a unit test compares them.
"""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._options import Range

#: Numbers of sshd_instance, ssh_mesh and the role key_exchange.
RANGES = {
    "port": Range(0, 65535, "0 (the operating system chooses), or 1 to 65535"),
    "connect_timeout": Range(1, 3600, "1 to 3600 seconds"),
    "key_lifetime": Range(0, 3650, "1 to 3650 days, or 0 for keys that do not expire"),
}

#: Environment variables that go over ssh; * and ? are wildcards.
FORWARDED_ENVIRONMENT = ("LD_LIBRARY_PATH", "NCCL_*", "OMPI_MCA_*", "PRTE_MCA_*", "PMIX_MCA_*")

#: Lines of an sshd_config. Beside them each sshd has its port, keys, account and environment, and UsePAM.
SSHD_POLICY = (
    "PermitRootLogin prohibit-password",
    "PubkeyAuthentication yes",
    "AuthenticationMethods publickey",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "HostbasedAuthentication no",
    "PermitEmptyPasswords no",
    # Ownership is checked where the files are made; file systems of containers, and /tmp, would not pass sshd's own check.
    "StrictModes no",
    "DisableForwarding yes",
    "PermitUserEnvironment no",
    "PermitUserRC no",
    "PrintMotd no",
    "PrintLastLog no",
    "UseDNS no",
    "LoginGraceTime 30",
    # mpirun opens a session to each host at once.
    "MaxStartups 1024",
    "MaxSessions 1024",
    "ClientAliveInterval 30",
    "ClientAliveCountMax 4",
    # What each release of OpenSSH has, its post-quantum ones first (since 9.0), without those that older ones still allow with SHA-1.
    "KexAlgorithms -diffie-hellman-*",
    "Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com,aes128-gcm@openssh.com,aes256-ctr,aes128-ctr",
    "MACs hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512",
    "LogLevel VERBOSE",
)

#: A further line for OpenSSH 9.8 and newer. Penalties are for strangers; here they would hit peers and probes of a cluster.
SSHD_POLICY_9_8 = "PerSourcePenalties no"

#: Lines of an ssh_config. Beside them each ssh has its keys, its known hosts and how strict it is about them.
SSH_POLICY = (
    "IdentitiesOnly yes",
    "GlobalKnownHostsFile /dev/null",
    "PreferredAuthentications publickey",
    "BatchMode yes",
    "LogLevel ERROR",
    "ServerAliveInterval 15",
    "ServerAliveCountMax 4",
    "ForwardAgent no",
    "ForwardX11 no",
    "ControlPath none",
)
