# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: names, ssh and sshd."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import EFFECT, entry, sign

#: Sources in which ssh, the client, speaks: sshd has the same words for what is no failure.
_CLIENT = ("launcher", "ssh", "any")
_CONNECT = r"connect to (?:host |address )?(?P<address>\S+) (?:\[\S+\] )?port (?P<port>\d+): "
_FIREWALL = "see that no firewall, security group or network policy is between"

ENTRIES = (
    entry(
        "name-unresolved",
        "[{name}|The name of a host] does not resolve on this node.",
        "Correct the name or DNS, or use the address: mpi_hostfile waits for names and writes addresses.",
        sign(
            "Could not resolve hostname",
            r"Could not resolve hostname (?P<host>\S+?): (?!Temporary failure)(?P<reason>.+)",
        ),
        statuses=(255,),
    ),
    entry(
        "name-server-silent",
        "The name server does not answer, so [{name}|the name of a host] does not resolve.",
        "See whether the name servers of /etc/resolv.conf run and can be reached; in a cluster, its DNS pods and port 53.",
        sign("Could not resolve hostname", r"Could not resolve hostname (?P<host>\S+?): Temporary failure"),
        statuses=(255,),
    ),
    entry(
        "name-loopback",
        "[{name}|The name of a host] resolves to an address of the asking machine itself[: {addresses}].",
        "Correct /etc/hosts, or use the address of the control network.",
        found_by="mpi_preflight, ssh_probe",
    ),
    entry(
        "name-late",
        "[{name}|The name of a host] resolved late[: after {seconds} s].",
        "Nothing has to be done; have mpi_hostfile wait longer where it stays (timeout).",
        severity="warning",
        found_by="mpi_hostfile",
    ),
    entry(
        "name-stale",
        "[{name}|The name of a host] still is another's: [it resolves to {addresses}, and not to {expected}|of an earlier pod of that"
        " name].",
        "Delete the old job fully, give each job a name of its own, wait longer than the DNS cache keeps records, or set use_expected"
        " of mpi_hostfile.",
        found_by="mpi_hostfile",
    ),
    entry(
        "connect-refused",
        "Nothing listens on [{address} port {port}|the port of ssh], or a firewall resets.",
        "Start sshd (run key_exchange again), or correct the port: ansible_port, key_exchange_port.",
        sign("Connection refused", _CONNECT + r"Connection refused"),
        statuses=(255,),
    ),
    entry(
        "connect-rejected",
        "A firewall[ ({by})] rejects connections to [{address} port {port}|the port of ssh].",
        "Open the port between the nodes; with key_exchange_port it can be one that is open.",
        found_by="mpi_preflight, ssh_probe",
    ),
    entry(
        "connect-timeout",
        "[{address} port {port}|The host] does not answer[ within {seconds} s]: it is down, or packets are dropped.",
        f"See whether the host is up; {_FIREWALL}.",
        sign("timed out", _CONNECT + r"(?:Connection|Operation) timed out"),
        statuses=(255,),
    ),
    entry(
        "connect-unreachable",
        "There is no way to [{address}|the host], or a firewall says so.",
        f"Look at routes and addresses, and at gpufabric_control_interface; {_FIREWALL}.",
        sign("No route to host", _CONNECT + r"No route to host"),
        sign("Network is unreachable", _CONNECT + r"Network is unreachable"),
        statuses=(255,),
    ),
    entry(
        "ssh-banner-timeout",
        "[{address} port {port}|The port] takes connections and says nothing: no sshd, or one that has no time.",
        "See what listens there and how busy the host is; key_exchange makes an sshd of its own on a free port.",
        sign("timed out during banner exchange", r"^(?:ssh: )?Connection timed out during banner exchange"),
        sign("timed out", r"^Connection to (?P<address>\S+) port (?P<port>\d+) timed out", kinds=_CLIENT),
        statuses=(255,),
    ),
    entry(
        "ssh-not-ssh",
        "Something else than sshd answers[ on {address} port {port}].",
        "End it, or take another port: key_exchange_port: 0 takes a free one.",
        sign("exchange_identification: banner line contains invalid characters"),
        sign("Invalid SSH identification string"),
        sign("Protocol major versions differ"),
        statuses=(255,),
    ),
    entry(
        "ssh-closed",
        "[{address} port {port}|sshd] ends connections before it says anything: too many at once, or not from here.",
        "Raise MaxStartups there (key_exchange's own sshd has 1024), and look into sshd's log: PerSourcePenalties,"
        " hosts.deny, or an sshd that fails when it starts a session.",
        sign("exchange_identification: Connection closed by remote host", kinds=_CLIENT),
        sign("exchange_identification: read: Connection reset by peer", kinds=_CLIENT),
        sign("Connection reset by", r"^Connection reset by (?P<address>\S+) port (?P<port>\d+)\s*$", kinds=_CLIENT),
        sign("Connection closed by", r"^Connection closed by (?P<address>\S+) port (?P<port>\d+)\s*$", kinds=_CLIENT),
        primacy=EFFECT,
        statuses=(255,),
    ),
    entry(
        "ssh-max-startups",
        "Too many logins at once: sshd drops some of them (MaxStartups).",
        "Raise MaxStartups there, or use key_exchange, whose sshd has 1024.",
        sign("Exceeded MaxStartups"),
        sign("beginning MaxStartups throttling"),
        sign("past MaxStartups", r"drop connection #\d+ from .* past MaxStartups"),
    ),
    entry(
        "ssh-penalty",
        "sshd refuses an address for a while, because logins from there failed (PerSourcePenalties).",
        "Mend the failed logins, or set PerSourcePenalties no there; key_exchange's own sshd has that.",
        sign("Not allowed at this time"),
        sign("drop connection", r"drop connection #\d+ from .* penalty: (?P<reason>.+)"),
        versions="OpenSSH 9.8 and later",
    ),
    entry(
        "ssh-no-common-algorithm",
        "ssh and sshd have no [{what}|algorithm] in common.",
        "Update the older side, or allow one of those that it offers: key_exchange_sshd_options.",
        sign(
            "no matching",
            r"Unable to negotiate with (?P<host>\S+) port \d+: no matching (?P<what>.+?) found",
        ),
        statuses=(255,),
    ),
    entry(
        "host-key-changed",
        "The sshd presents another host key than the known one: another machine, another sshd, or one that was installed anew.",
        "Run key_exchange again; where known_hosts is your own, make sure who answers, then take the old key out: ssh-keygen -R.",
        sign(
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            r"IDENTIFICATION HAS CHANGED(?:.*?[Hh]ost key for (?P<host>\S+) has changed)?",
            lines=20,
        ),
        sign("requested strict checking", r"[Hh]ost key for (?P<host>\S+) has changed and you have requested strict"),
        sign("does not match: got", r"Host key for server '?(?P<host>[^' ]+)'? does not match: got"),
        statuses=(255,),
    ),
    entry(
        "host-key-unknown",
        "No host key of it is known.",
        "Run key_exchange, which pins the keys of all; or add the key to known_hosts, once you are sure of it.",
        sign("host key is known for", r"No \S+ host key is known for (?P<host>\S+) and you have requested strict"),
        sign("not found in known_hosts", r"Server '?(?P<host>[^' ]+)'? not found in known_hosts"),
        statuses=(255,),
    ),
    entry(
        "host-key-refused",
        "ssh does not take the host key that was presented.",
        "Run key_exchange again; ssh -v tells which key was expected.",
        sign("Host key verification failed"),
        primacy=EFFECT,
        statuses=(255,),
    ),
    entry(
        "ssh-key-missing",
        "The private key[ {path}] is not there.",
        "Run key_exchange again, or set ansible_ssh_private_key_file; in a pod, see that the Secret with it is mounted.",
        sign("not accessible: No such file", r"Identity file (?P<path>\S+) not accessible: No such file"),
        sign("no such identity:", r"no such identity: (?P<path>\S+): No such file"),
        # All keys that ssh tries by itself are listed, with no address where there is none.
        sign(
            "debug2: key: ",
            r"^debug2: key: \S+/id_rsa \(\(nil\)\)(?: debug2: key: \S+ \(\(nil\)\))+(?! debug2: key)",
            lines=8,
        ),
        statuses=(255,),
    ),
    entry(
        "ssh-key-permissions",
        "ssh refuses the private key[ {path}], because others may read it[ (mode {mode})].",
        "Set mode 0600. In a pod, a Secret's volume with fsGroup is 0640: copy the key, or take fsGroup out.",
        sign(
            "UNPROTECTED PRIVATE KEY FILE",
            r"UNPROTECTED PRIVATE KEY FILE(?:.*?Permissions (?P<mode>\d+) for '(?P<path>[^']+)')?",
            lines=5,
        ),
        statuses=(255,),
    ),
    entry(
        "ssh-key-unreadable",
        "The private key[ {path}] cannot be used[: {reason}].",
        "Make it readable for this user, without passphrase, in a format that this OpenSSH knows.",
        sign("Load key", r'Load key "(?P<path>[^"]+)": (?P<reason>(?!bad permissions).+)'),
        statuses=(255,),
    ),
    entry(
        "ssh-config-permissions",
        "ssh refuses its settings in [{path}|a file]: they belong to somebody else, or others may write them.",
        "chown it to the user who runs ssh, and chmod 600; of a mounted file, use a copy.",
        sign("Bad owner or permissions on", r"Bad owner or permissions on (?P<path>\S+)"),
        statuses=(255,),
    ),
    entry(
        "ssh-config-invalid",
        "[{path}|A file with settings of ssh or sshd] has a setting that this OpenSSH does not know[: {option}].",
        "Take it out, or update OpenSSH; extra_options of sshd_instance (key_exchange_sshd_options) are written into sshd's.",
        sign("Bad configuration option", r"(?P<path>\S+?):? line \d+: Bad configuration option: (?P<option>\S+)"),
        sign("bad configuration options", r"(?P<path>\S+?): terminating, \d+ bad configuration options"),
        sign("open user config file", r"Can't open user config file (?P<path>\S+?): (?P<option>.+)"),
        statuses=(255,),
    ),
    entry(
        "ssh-auth-refused",
        "sshd lets [{user}|the user] in with none of the keys that were offered.",
        "Run key_exchange again, which writes authorized_keys on all; sshd's log on the host tells why it refused.",
        sign(
            "Permission denied (",
            r"(?:(?P<user>[^\s@:]+)@)?(?P<host>[^\s@:]+): Permission denied \([\w,-]+\)",
        ),
        sign("Permission denied (", r"^Permission denied \([\w,-]+\)"),
        sign("Permission denied, please try again"),
        sign("Authentication failed.", r"^(?:paramiko\S*: )?Authentication failed\.$"),
        primacy=EFFECT,
        statuses=(255,),
    ),
    entry(
        "ssh-too-many-keys",
        "ssh offered so many keys that sshd gave up before the right one.",
        "Set IdentitiesOnly yes, as the configuration of ssh_mesh does, or take keys out of the agent.",
        sign(
            "Too many authentication failures",
            r"Received disconnect from (?P<host>\S+) port \d+:\d+: Too many authentication failures",
        ),
        statuses=(255,),
    ),
    entry(
        "authorized-keys-permissions",
        "sshd does not trust [{path}|authorized_keys], because of its owner or mode (StrictModes).",
        "It, and all directories above it, must belong to the user or root, writable for nobody else; key_exchange has its own.",
        sign(
            "Authentication refused: bad ownership or modes",
            r"Authentication refused: bad ownership or modes for (?:file|directory) (?P<path>\S+)",
        ),
    ),
    entry(
        "account-locked",
        "The account [{user}|of the login] is locked, and sshd lets nobody in there without PAM.",
        "Run usermod -p '*' on it, or let sshd use PAM: sshd_instance does so by itself where it can.",
        sign("not allowed because account is locked", r"User (?P<user>\S+) not allowed because account is locked"),
    ),
    entry(
        "account-no-shell",
        "The account[ {user}] has no shell[ ({path})] that a login can run.",
        "Give it one: usermod -s /bin/bash; or log in as another user.",
        sign(
            "not allowed because shell",
            r"User (?P<user>\S+) not allowed because shell (?P<path>\S+) (?:does not exist|is not executable)",
        ),
        sign("This account is currently not available"),
    ),
    entry(
        "account-not-allowed",
        "sshd's settings keep [{user}|the user] out.",
        "Change AllowUsers, DenyUsers, AllowGroups, DenyGroups or PermitRootLogin there; key_exchange's own sshd allows its user.",
        sign(
            "not allowed because",
            r"User (?P<user>\S+) from \S+ not allowed because (?:(?:not )?listed|not in any group|a group is|none of)",
        ),
        sign("ROOT LOGIN REFUSED"),
    ),
    entry(
        "account-expired",
        "The account[ {user}], or its password, has expired.",
        "Run chage -E -1 -M -1 on it, as root.",
        sign("Account", r"Account (?P<user>\S+) has expired"),
        sign("Your account has expired"),
        sign("Password change required but no TTY available"),
    ),
    entry(
        "user-missing",
        "There is no user [{user}|of that name] on the host.",
        "Correct ansible_user, or create the user.",
        sign("Invalid user", r"Invalid user (?P<user>\S+) from \S+"),
        sign("not known to the underlying", r"User (?P<user>\S+) not known to the underlying authentication module"),
    ),
    entry(
        "uid-without-account",
        "The user id[ {user}] has no entry in /etc/passwd, and ssh and mpirun do not work without one.",
        "Give it one: let the image's group write /etc/passwd, or install libnss-wrapper in it, and sshd_instance does the rest.",
        sign("No user exists for uid", r"No user exists for uid (?P<user>\d+)"),
        sign("is unknown to the system", r"The user \((?P<user>\d+)\) is unknown to the system"),
        sign("was unable to obtain the username"),
    ),
    entry(
        "pam-refused",
        "PAM does not let [{user}|the user] in.",
        "Look at /etc/pam.d/sshd there, at pam_access, pam_nologin and pam_slurm; or run sshd without it: use_pam: false.",
        sign("by PAM account configuration", r"Access denied for user (?P<user>\S+) by PAM account configuration"),
        sign("See pam_nologin"),
        sign("PAM: ", r"fatal: PAM: pam_\w+\(\): "),
        sign("pam_slurm", r"Access denied: user (?P<user>\S+) .*has no active jobs"),
    ),
    entry(
        "ssh-session",
        "The login worked, and the session gave no answer[: it ended with exit status {status}].",
        "Log in by hand and look: the shell's profile may end it, or a limit (processes, memory) may be reached.",
        found_by="mpi_preflight, ssh_probe",
    ),
    entry(
        "openssh-missing",
        "[{program}|A program of OpenSSH] is not on this node.",
        "Install it (Debian, Ubuntu: apt-get install [{debian}|openssh-server openssh-client]; RHEL and its kin: dnf install"
        " [{rhel}|openssh-server openssh-clients]), in an image: RUN apt-get update && apt-get install -y"
        " --no-install-recommends openssh-server openssh-client.",
        found_by="sshd_instance",
    ),
    entry(
        "sshd-no-host-keys",
        "sshd has no host keys that it can use[: {path}: {reason}].",
        "Run ssh-keygen -A there; in an image, when the container starts, so that not all have the same. Remove those that are"
        " damaged: sshd_instance makes its own anew.",
        sign(
            "Unable to load host key",
            r"^Unable to load host key \"(?P<path>[^\"]+)\": (?P<reason>.+?) Unable to load host key.* no hostkeys available",
            lines=7,
        ),
        sign("no hostkeys available", r"no hostkeys available\s*-- exiting"),
        primacy=EFFECT,
        statuses=(1, 255),
    ),
    entry(
        "sshd-run-directory",
        "sshd needs the directory [{path}|/run/sshd], and it is not there.",
        "Make it: mkdir -p -m 0755 [{path}|/run/sshd]; /run is empty after each start of a container. sshd_instance makes it.",
        sign(
            "Missing privilege separation directory",
            r"Missing privilege separation directory: (?P<path>[^\s\"'\\]+)",
        ),
        statuses=(255,),
    ),
    entry(
        "sshd-run-directory-owner",
        "sshd does not trust its directory[ {path}].",
        "Give it to root, writable for nobody else: chown root [{path}|/run/sshd]; chmod 0755.",
        sign("must be owned by root and not group", r"(?P<path>/\S+) must be owned by root and not group"),
        statuses=(255,),
    ),
    entry(
        "sshd-relative-path",
        "sshd was started without its whole path, and needs it to start itself again for each login.",
        "Start it as /usr/sbin/sshd; sshd_instance does so by itself.",
        sign("requires execution with an absolute path"),
        statuses=(1, 255),
    ),
    entry(
        "sshd-user-missing",
        "sshd needs the user [{user}|sshd], and there is none.",
        "Create it in the image: useradd --system --no-create-home --shell /usr/sbin/nologin sshd.",
        sign("Privilege separation user", r"Privilege separation user (?P<user>\S+) does not exist"),
        statuses=(255,),
    ),
    entry(
        "sshd-chroot",
        "The container may not chroot, which sshd does for every login.",
        "Add the capability SYS_CHROOT to the container: worker_pods_capabilities, mpijob_capabilities.",
        sign("Operation not permitted", r"chroot\(\"?[^)]*\"?\): Operation not permitted"),
    ),
    entry(
        "sshd-set-user",
        "The container may not change users, which sshd does for every login[ ({call})].",
        "Add the capabilities SETUID and SETGID to the container: worker_pods_capabilities; or run sshd as the user who logs in.",
        sign(
            "Operation not permitted",
            r"(?P<call>setgroups|initgroups|setgid|setuid|setegid|seteuid|setresuid|setresgid|permanently_set_uid)\b.*"
            r"Operation not permitted",
        ),
    ),
    entry(
        "sshd-port-taken",
        "Another program has [port {port} of {address}|the port of sshd] already.",
        "Take another; 0 takes a free one (port, key_exchange_port).",
        sign(
            "Address already in use", r"Bind to port (?P<port>\d+) on (?P<address>\S+) failed: Address already in use"
        ),
        statuses=(255,),
    ),
    entry(
        "sshd-port-forbidden",
        "sshd may not listen on port [{port}|that it was given]: below 1024 only root may, and SELinux knows ssh's ports.",
        "Take a port above 1023, or 0 (port, key_exchange_port); with SELinux: semanage port -a -t ssh_port_t -p tcp PORT.",
        sign("failed: Permission denied", r"Bind to port (?P<port>\d+) on \S+ failed: Permission denied"),
        statuses=(255,),
    ),
    entry(
        "sshd-address-missing",
        "The address that sshd is to listen on[, {address},] is not one of this host.",
        "Correct gpufabric_control_interface; run key_exchange again where the address has changed.",
        sign("assign requested address", r"Bind to port \d+ on (?P<address>\S+?) failed: Cannot assign requested"),
        statuses=(255,),
    ),
    entry(
        "sshd-silent",
        "sshd runs, and does not answer on its own host[: {address} port {port}][, for {seconds} s].",
        "See what the host's own firewall does with what it sends to itself, and how busy it is; look into sshd's log.",
        primacy=EFFECT,
        found_by="sshd_instance",
    ),
    entry(
        "sshd-ended",
        "sshd ended instead of listening[, with exit status {status}].",
        "Read what it said, and start it by hand: /usr/sbin/sshd -D -d -f FILE.",
        primacy=EFFECT,
        found_by="sshd_instance",
    ),
    entry(
        "env-not-accepted",
        "sshd there drops [{variables}|variables of the environment] that mpirun needs to hand on.",
        "Name them in AcceptEnv there: gpufabric_forward_env.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "env-not-sent",
        "ssh on the launcher does not send [{variables}|variables of the environment] that mpirun needs to hand on.",
        "Name them in SendEnv there: gpufabric_forward_env.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "host-unreachable",
        "Ansible cannot reach the host.",
        "Look at its entry in the inventory (ansible_host, ansible_port, ansible_user); ssh_probe tells at which step it fails.",
        found_by="the role preflight",
    ),
    entry(
        "python-missing",
        "There is no Python on the host, so the rest of it was not looked at.",
        "Install python3, or set ansible_python_interpreter.",
        severity="warning",
        found_by="mpi_preflight",
    ),
)
