# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: names, ssh and sshd."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import EFFECT, entry, signature

#: Sources in which ssh, the client, speaks: sshd has the same words for what is no failure.
_CLIENT = ("launcher", "ssh", "any")
_CONNECT = r"connect to (?:host |address )?(?P<address>\S+) (?:\[\S+\] )?port (?P<port>\d+): "

ENTRIES = (
    entry(
        "name-unresolved",
        "[{name}|The name of a host] does not resolve on this node.",
        "Correct the name or DNS, or use the address. mpi_hostfile waits for names and writes addresses.",
        signature(
            "Could not resolve hostname",
            r"Could not resolve hostname (?P<host>\S+?): (?!Temporary failure)(?P<reason>.+)",
        ),
        statuses=(255,),
    ),
    entry(
        "name-server-silent",
        "The name server does not answer, so [{name}|the name of a host] does not resolve.",
        "Check that the name servers of /etc/resolv.conf run and can be reached; in a cluster, check its DNS pods"
        " and port 53.",
        signature("Could not resolve hostname", r"Could not resolve hostname (?P<host>\S+?): Temporary failure"),
        statuses=(255,),
    ),
    entry(
        "name-loopback",
        "[{name}|The name of a host] resolves to an address of this machine itself[: {addresses}].",
        "Correct /etc/hosts, or use the address of the control network.",
        found_by="mpi_preflight, ssh_probe",
    ),
    entry(
        "name-late",
        "[{name}|The name of a host] resolved late[: after {seconds} s].",
        "Raise timeout of mpi_hostfile (for an MPIJob mpijob_dns_timeout) if this happens often. Otherwise nothing has to be done.",
        severity="warning",
        found_by="mpi_hostfile",
    ),
    entry(
        "name-stale",
        "[{name}|The name of a host] still belongs to another host or pod[: it resolves to {addresses}, and not to"
        " {expected}].",
        "Delete the old job completely, give each job a name of its own, wait until the DNS cache has dropped its"
        " record, or set use_expected of mpi_hostfile.",
        found_by="mpi_hostfile",
    ),
    entry(
        "host-twice",
        "The inventory has one machine under several names[: {hosts}].",
        "Keep one of the names in the inventory, or in gpufabric_hosts. With worker_pods_host_network, keep two pods of a run off one"
        " node by a podAntiAffinity in worker_pods_affinity.",
        found_by="the roles nccl_benchmark and key_exchange, mpi_preflight",
    ),
    entry(
        "connect-refused",
        "Nothing listens on [{address} port {port}|the port of ssh], or a firewall resets the connection.",
        "Start sshd (run key_exchange again), or correct the port: ansible_port, key_exchange_port. If sshd does run on the host, another"
        " machine may have its address: compare what ip neigh shows for it, from where the login failed, with the host's own ip link. If"
        " the run's sshd ends again each time, the host ends what a login leaves: set KillUserProcesses=no in /etc/systemd/logind.conf.",
        signature("Connection refused", _CONNECT + r"Connection refused"),
        statuses=(255,),
    ),
    entry(
        "connect-rejected",
        "A firewall[ ({by})] rejects connections to [{address} port {port}|the port of ssh].",
        "Open the port between the nodes, or set key_exchange_port to one that is open.",
        found_by="mpi_preflight, ssh_probe",
    ),
    entry(
        "connect-timeout",
        "[{address} port {port}|The host] does not answer[ within {seconds} s]: the host is down, or the network"
        " drops packets.",
        "Check that the host is up, and that no firewall, security group or network policy is between.",
        signature("timed out", _CONNECT + r"(?:Connection|Operation) timed out"),
        statuses=(255,),
    ),
    entry(
        "connect-unreachable",
        "The network has no route to [{address}|the host], or a firewall rejects the connection.",
        "Check that the host is up. From the controller, check the address in the inventory (ansible_host); between"
        " workers, gpufabric_control_interface. Then check routes, and that no firewall, security group or network"
        " policy is between.",
        signature("No route to host", _CONNECT + r"No route to host"),
        signature("Network is unreachable", _CONNECT + r"Network is unreachable"),
        statuses=(255,),
    ),
    entry(
        "ssh-banner-timeout",
        "[{address} port {port}|The port] accepts connections but sends nothing: it is not sshd, or sshd is too busy.",
        "Check what listens there and how busy the host is. key_exchange starts an sshd of its own on a free port.",
        signature("timed out during banner exchange", r"^(?:ssh: )?Connection timed out during banner exchange"),
        signature("timed out", r"^Connection to (?P<address>\S+) port (?P<port>\d+) timed out", kinds=_CLIENT),
        statuses=(255,),
    ),
    entry(
        "ssh-packets-lost",
        "Small packets reach [{address} port {port}|sshd], but large ones do not, so that every login hangs.",
        "Compare the MTU of the interfaces on both sides (ip link) with what the network between them carries: switches, tunnels, VPNs and"
        " overlays carry less, and a firewall that drops ICMP hides that. Set the smallest of them on all hosts.",
        found_by="mpi_preflight, ssh_probe",
    ),
    entry(
        "ssh-not-ssh",
        "Another program than sshd answers[ on {address} port {port}].",
        "End it, or set another port: key_exchange_port: 0 takes a free one.",
        signature("exchange_identification: banner line contains invalid characters"),
        signature("Invalid SSH identification string"),
        signature("Protocol major versions differ"),
        statuses=(255,),
    ),
    entry(
        "ssh-closed",
        "[{address} port {port}|sshd] closes connections before it lets anybody log in: there are too many, or it"
        " rejects this address.",
        "Raise MaxStartups on the host (key_exchange's own sshd has four for each worker), and read sshd's log. Check"
        " PerSourcePenalties and hosts.deny, and whether sshd fails to start sessions.",
        signature("exchange_identification: Connection closed by remote host", kinds=_CLIENT),
        signature("exchange_identification: read: Connection reset by peer", kinds=_CLIENT),
        signature(
            "Connection reset by", r"^Connection reset by (?P<address>\S+) port (?P<port>\d+)\s*$", kinds=_CLIENT
        ),
        signature(
            "Connection closed by",
            # Of a connection by ProxyCommand, ssh does not know the address.
            r"^Connection closed by (?:UNKNOWN port 65535|(?P<address>\S+) port (?P<port>\d+))\s*$",
            kinds=_CLIENT,
        ),
        # Since 9.8, for MaxStartups and for PerSourcePenalties; before, it named MaxStartups.
        signature("Not allowed at this time"),
        precedence=EFFECT,
        statuses=(255,),
    ),
    entry(
        "ssh-max-startups",
        "sshd drops logins, because too many come at once (MaxStartups).",
        "Raise MaxStartups on the host, or use key_exchange, whose sshd has four for each worker.",
        signature("Exceeded MaxStartups"),
        signature("beginning MaxStartups throttling"),
        # "past MaxStartups", in 9.8 and 9.9 "past Maxstartups", since 10.0 "Maxstartups".
        signature("drop connection", r"drop connection #\d+ from .* [Mm]ax[Ss]tartups\b"),
    ),
    entry(
        "ssh-penalty",
        "sshd refuses an address for a while, because logins from it failed (PerSourcePenalties).",
        "Repair the failed logins, or set PerSourcePenalties no on the host, as key_exchange's own sshd has it.",
        signature("drop connection", r"drop connection #\d+ from .* penalty: (?P<reason>.+)"),
        versions="OpenSSH 9.8 and later",
        source="OpenSSH 9.8, sshd.c and srclimit.c",
    ),
    entry(
        "ssh-no-common-algorithm",
        "ssh and sshd have no [{what}|algorithm] in common.",
        "Update the older side, or allow an algorithm that it offers: key_exchange_sshd_options.",
        signature(
            "no matching",
            r"Unable to negotiate with (?P<host>\S+) port \d+: no matching (?P<what>.+?) found(?!.*\[preauth\])",
        ),
        # As sshd writes it, of the client.
        signature(
            "no matching",
            r"Unable to negotiate with \S+ port \d+: no matching (?P<what>.+?) found.*\[preauth\]",
        ),
        statuses=(255,),
    ),
    entry(
        "host-key-changed",
        "sshd presents another host key than the known one: another machine or another sshd answers, or the host was"
        " installed again.",
        "Run key_exchange again. If known_hosts is your own, make sure who answers, then remove the old key:"
        " ssh-keygen -R.",
        signature(
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            r"IDENTIFICATION HAS CHANGED(?:.*?[Hh]ost key for (?P<host>\S+) has changed)?",
            lines=20,
        ),
        signature(
            "requested strict checking", r"[Hh]ost key for (?P<host>\S+) has changed and you have requested strict"
        ),
        signature("does not match: got", r"Host key for server '?(?P<host>[^' ]+)'? does not match: got"),
        statuses=(255,),
    ),
    entry(
        "host-key-unknown",
        "No host key of this host is known.",
        "Run key_exchange, which pins the keys of all hosts; or add the key to known_hosts after you have checked it.",
        signature("host key is known for", r"No \S+ host key is known for (?P<host>\S+) and you have requested strict"),
        signature("not found in known_hosts", r"Server '?(?P<host>[^' ]+)'? not found in known_hosts"),
        statuses=(255,),
    ),
    entry(
        "host-key-refused",
        "ssh does not accept the host key that sshd presents.",
        "Run key_exchange again; ssh -v shows which key it expects.",
        signature("Host key verification failed"),
        precedence=EFFECT,
        statuses=(255,),
    ),
    entry(
        "ssh-key-missing",
        "The private key[ {path}] does not exist.",
        "Run key_exchange again, or set ansible_ssh_private_key_file; in a pod, mount the Secret with the key.",
        signature("not accessible: No such file", r"Identity file (?P<path>\S+) not accessible: No such file"),
        signature("no such identity:", r"no such identity: (?P<path>\S+): No such file"),
        # All keys that ssh tries by itself are listed, with no address where there is none.
        signature(
            "debug2: key: ",
            r"^debug2: key: \S+/id_rsa \(\(nil\)\)(?: debug2: key: \S+ \(\(nil\)\))+(?! debug2: key)",
            lines=8,
        ),
        statuses=(255,),
    ),
    entry(
        "ssh-key-permissions",
        "ssh refuses the private key[ {path}], because other users may read it[ (mode {mode})].",
        "Set its mode to 0600. In a pod, the volume of a Secret with fsGroup has mode 0640: copy the key, or remove"
        " fsGroup.",
        signature(
            "UNPROTECTED PRIVATE KEY FILE",
            r"UNPROTECTED PRIVATE KEY FILE(?:.*?Permissions (?P<mode>\d+) for '(?P<path>[^']+)')?",
            lines=5,
        ),
        statuses=(255,),
    ),
    entry(
        "ssh-key-unreadable",
        "ssh cannot use the private key[ {path}][: {reason}].",
        "Make the key readable for this user, without a passphrase, in a format that this OpenSSH knows.",
        signature("Load key", r'Load key "(?P<path>[^"]+)": (?P<reason>(?!bad permissions).+)'),
        statuses=(255,),
    ),
    entry(
        "ssh-config-permissions",
        "ssh refuses its configuration in [{path}|a file]: another user owns it, or others may write to it.",
        "Run chown on the file for the user who runs ssh, and chmod 600. If the file is mounted, use a copy.",
        signature("Bad owner or permissions on", r"Bad owner or permissions on (?P<path>\S+)"),
        statuses=(255,),
    ),
    entry(
        "ssh-config-invalid",
        "[{path}|A configuration file of ssh or sshd] has a setting that this OpenSSH does not know[: {option}].",
        "Remove the setting, or update OpenSSH. extra_options of sshd_instance (key_exchange_sshd_options) are part"
        " of sshd's configuration.",
        signature(
            "Bad configuration option", r"(?<!\S)(?P<path>\S+?):? line \d+: Bad configuration option: (?P<option>\S+)"
        ),
        signature("bad configuration options", r"(?<!\S)(?P<path>\S+?): terminating, \d+ bad configuration options"),
        statuses=(255,),
    ),
    entry(
        "ssh-config-missing",
        "ssh cannot read its configuration[ {path}: {reason}].",
        "Run key_exchange again, which writes it on every worker: a restart of the machine removes what is in /run, and often in /tmp."
        " If an option -F of your own names the file, correct it.",
        signature("open user config file", r"Can't open user config file (?P<path>\S+?): (?P<reason>.+)"),
        statuses=(255,),
    ),
    entry(
        "ssh-auth-refused",
        "sshd accepts none of the keys that [{user}|the user] offers.",
        "Between workers, take plm_rsh_agent out of nccl_benchmark_mca if it is there. Then run key_exchange again, which writes"
        " authorized_keys on all hosts and renews keys that have expired (key_exchange_key_lifetime). From the controller, check"
        " ansible_user, ansible_ssh_private_key_file and authorized_keys of the host. sshd's log on the host names the reason.",
        signature(
            "Permission denied (",
            # From the beginning of a word only: from each of its letters, a long one would take quadratic time. A host may be an
            # IPv6 address, and a user have a domain behind a @. With a number in place of methods, it is what another program says of errno.
            r"(?:(?<![^\s:])(?P<user>[^\s:]+)@|(?<!\S))(?P<host>[^\s@]+): Permission denied \((?!\d+\))[\w,-]+\)",
        ),
        signature("Permission denied (", r"^Permission denied \((?!\d+\))[\w,-]+\)"),
        signature("Permission denied, please try again"),
        signature("Authentication failed.", r"^(?:paramiko\S*: )?Authentication failed\.$"),
        precedence=EFFECT,
        statuses=(255,),
    ),
    entry(
        "ssh-keys-expired",
        "The keys of the run have expired on this host[: they were valid until {day}, and its clock says {now}].",
        "Run key_exchange again, which renews them (key_exchange_key_lifetime). If the clock is wrong, set it first: chronyc"
        " makestep, or timedatectl set-ntp true.",
        found_by="sshd_log",
    ),
    entry(
        "ssh-too-many-keys",
        "ssh offered too many wrong keys, and sshd gave up before the right one.",
        "Set IdentitiesOnly yes, as the configuration of ssh_mesh does, or remove keys from the agent.",
        signature(
            "Too many authentication failures",
            r"Received disconnect from (?P<host>\S+) port \d+:\d+: Too many authentication failures",
        ),
        statuses=(255,),
    ),
    entry(
        "authorized-keys-permissions",
        "sshd does not trust [{path}|authorized_keys], because of its owner or mode (StrictModes).",
        "Give the file and all directories above it to the user or to root, and let no other user write to them;"
        " key_exchange has a file of its own.",
        signature(
            "Authentication refused: bad ownership or modes",
            r"Authentication refused: bad ownership or modes for (?:file|directory) (?P<path>\S+)",
        ),
    ),
    entry(
        "account-name",
        "ssh cannot be told the name of this account[: {user}].",
        "Run as another account (ansible_user or become). Its name may have letters, digits, dots, underscores, pluses and dashes,"
        " and a domain, as USER@DOMAIN or DOMAIN\\USER.",
        found_by="sshd_instance",
    ),
    entry(
        "account-locked",
        "The account [{user}|of the login] is locked. Without PAM, sshd does not let a locked account in.",
        "Run usermod -p '*' on the account, or let sshd use PAM: sshd_instance does so if it can.",
        signature("not allowed because account is locked", r"User (?P<user>\S+) not allowed because account is locked"),
        # sshd without PAM takes an account that has expired for a locked one, too.
        follows=("account-expired",),
    ),
    entry(
        "account-no-shell",
        "The account[ {user}] has no shell[ ({path})] that a login can run.",
        "Give the account a shell: usermod -s /bin/bash[ {user}| ACCOUNT]; or log in as another user.",
        signature(
            "not allowed because shell",
            r"User (?P<user>\S+) not allowed because shell (?P<path>\S+) (?:does not exist|is not executable)",
        ),
        signature("This account is currently not available"),
    ),
    entry(
        "account-not-allowed",
        "sshd's configuration does not let [{user}|the user] in.",
        "Change AllowUsers, DenyUsers, AllowGroups, DenyGroups or PermitRootLogin on the host; key_exchange's own"
        " sshd allows its user.",
        signature(
            "not allowed because",
            r"User (?P<user>\S+) from \S+ not allowed because (?:(?:not )?listed|not in any group|a group is|none of)",
        ),
        signature("ROOT LOGIN REFUSED"),
    ),
    entry(
        "account-expired",
        "The account[ {user}], or its password, has expired.",
        "Run chage -d -1 -E -1 -M -1 on the account, as root.",
        signature("Account", r"Account (?P<user>\S+) has expired"),
        signature("Your account has expired"),
        signature("Password change required but no TTY available"),
    ),
    entry(
        "user-missing",
        "The host has no user [{user}|of that name].",
        "Correct ansible_user, or create the user.",
        signature("Invalid user", r"Invalid user (?P<user>\S+) from \S+"),
        signature(
            "not known to the underlying", r"User (?P<user>\S+) not known to the underlying authentication module"
        ),
    ),
    entry(
        "uid-without-account",
        "The user id[ {user}] has no entry in /etc/passwd, but ssh and mpirun need one.",
        "Install libnss-wrapper in the image; sshd_instance then gives the user id an entry.",
        signature("No user exists for uid", r"No user exists for uid (?P<user>\d+)"),
        signature("is unknown to the system", r"The user \((?P<user>\d+)\) is unknown to the system"),
        signature("was unable to obtain the username"),
    ),
    entry(
        "pam-refused",
        "PAM does not let [{user}|the user] in.",
        "Check /etc/pam.d/sshd on the host: its account modules (pam_access, pam_nologin, pam_slurm) and its session modules"
        " (pam_limits refuses more logins than maxlogins of /etc/security/limits.conf allows). key_exchange's own sshd uses PAM"
        " only if the account is locked: usermod -p '*' on the account ends that.",
        signature("by PAM account configuration", r"Access denied for user (?P<user>\S+) by PAM account configuration"),
        signature("See pam_nologin"),
        signature("PAM: ", r"fatal: PAM: pam_\w+\(\): "),
        # sshd goes on, and ends the session with 254.
        signature("pam_open_session(): ", r"PAM: pam_open_session\(\): "),
        # What pam_limits says to who logs in.
        signature("There were too many logins for", r"There were too many logins for '(?P<user>[^']+)'"),
        signature("pam_slurm", r"Access denied: user (?P<user>\S+) .*has no active jobs"),
        follows=("account-expired",),
    ),
    entry(
        "ssh-session",
        "The login worked, but the session gave no answer[: it ended with exit status {status}].",
        "Log in by hand. The shell's profile (~/.bashrc, ~/.profile) may end the session, or start another shell, which waits for input;"
        " or a limit (processes, memory) may be reached.",
        found_by="mpi_preflight, ssh_probe",
    ),
    entry(
        "ssh-login-stuck",
        "A connection to sshd opens, but the login gets no further: large packets are lost on the way, or the host hangs.",
        "Compare the MTU of this host, the launcher and all switches between them: with an MTU of 1500, ping -M do -s 1472 from one"
        " to the other has an answer, with one of 9000 also -s 8972. If it is the same everywhere, see whether the host is overloaded.",
        found_by="mpi_preflight",
    ),
    entry(
        "session-noisy",
        "The login worked, but the session prints without end, so the host could not be checked.",
        "Log in by hand and see what prints. Take it out of the files that the login shell reads (~/.bashrc, ~/.profile,"
        " /etc/profile.d), or let it print in interactive sessions only.",
        found_by="mpi_preflight",
    ),
    entry(
        "wrong-answer",
        "The host answers, but not with what the module returns, so its answer is not used.",
        "Log in to the host, and find out what answers in place of its Python. Leave it out of gpufabric_hosts until then.",
        found_by="mpi_preflight, key_exchange, nccl_benchmark, nccl_tests, isolate",
    ),
    entry(
        "openssh-missing",
        "This node does not have [{program}|a program of OpenSSH].",
        "Install OpenSSH (Debian, Ubuntu: apt-get install [{debian}|openssh-server openssh-client]; RHEL and its"
        " kin: dnf install [{rhel}|openssh-server openssh-clients]). In an image: RUN apt-get update && apt-get"
        " install -y --no-install-recommends openssh-server openssh-client.",
        found_by="sshd_instance",
    ),
    entry(
        "sshd-no-host-keys",
        "sshd has no host keys that it can use[: {path}: {reason}].",
        "Run ssh-keygen -A on the host. In an image, run it when the container starts, so that each container has"
        " keys of its own. Remove damaged keys: sshd_instance makes new ones.",
        signature(
            "Unable to load host key",
            r"^Unable to load host key \"(?P<path>[^\"]+)\": (?P<reason>.+?) Unable to load host key.* no hostkeys available",
            lines=7,
        ),
        signature("no hostkeys available", r"no hostkeys available\s*-- exiting"),
        precedence=EFFECT,
        statuses=(1, 255),
    ),
    entry(
        "sshd-run-directory",
        "sshd needs the directory [{path}|/run/sshd], which does not exist.",
        "Create it: mkdir -p -m 0755 [{path}|/run/sshd]. /run is empty after each start of a container;"
        " sshd_instance creates the directory.",
        signature(
            "Missing privilege separation directory",
            r"Missing privilege separation directory: (?P<path>[^\s\"'\\]+)",
        ),
        statuses=(255,),
    ),
    entry(
        "sshd-run-directory-owner",
        "sshd does not trust its directory[ {path}].",
        "Give it to root, and let no other user write to it: chown root [{path}|/run/sshd] && chmod 0755 [{path}|/run/sshd].",
        signature(
            "must be owned by root and not group",
            r"(?<![^\s\"'])(?P<path>/[^\s\"']+) must be owned by root and not group",
        ),
        statuses=(255,),
    ),
    entry(
        "sshd-relative-path",
        "sshd was started without its full path, which it needs to start itself again for each login.",
        "Start it as /usr/sbin/sshd; sshd_instance does so.",
        signature("requires execution with an absolute path"),
        statuses=(1, 255),
    ),
    entry(
        "sshd-user-missing",
        "sshd needs the user [{user}|sshd], which does not exist.",
        "Create it in the image: useradd --system --no-create-home --shell /usr/sbin/nologin sshd.",
        signature("Privilege separation user", r"Privilege separation user (?P<user>\S+) does not exist"),
        statuses=(255,),
    ),
    entry(
        "sshd-chroot",
        "The container may not chroot, which sshd does for every login.",
        "Add the capability SYS_CHROOT to the container: worker_pods_capabilities, mpijob_capabilities.",
        signature("Operation not permitted", r"chroot\(\"?[^)]*\"?\): Operation not permitted"),
    ),
    entry(
        "sshd-set-user",
        "The container may not change users, which sshd does for every login[ ({call})].",
        "Add the capabilities SETUID and SETGID to the container (worker_pods_capabilities, mpijob_capabilities), or"
        " run sshd as the user who logs in.",
        signature(
            "Operation not permitted",
            r"(?P<call>setgroups|initgroups|setgid|setuid|setegid|seteuid|setresuid|setresgid|permanently_set_uid)\b.*"
            r"Operation not permitted",
        ),
    ),
    entry(
        "sshd-port-taken",
        "[The sshd of the run {run}|Another program] already uses [port {port} of {address}|the port of sshd].",
        "Set another port (port, key_exchange_port); 0 takes a free one.[ Or end the run {run} by its teardown.|]",
        signature(
            "Address already in use", r"Bind to port (?P<port>\d+) on (?P<address>\S+) failed: Address already in use"
        ),
        statuses=(255,),
    ),
    entry(
        "sshd-port-forbidden",
        "sshd may not listen on [port {port}|its port]: ports below 1024 need root, and SELinux allows only ports"
        " that it knows as ssh's.",
        "Set a port above 1023, or 0 (port, key_exchange_port). With SELinux: semanage port -a -t ssh_port_t -p tcp"
        " PORT.",
        signature("failed: Permission denied", r"Bind to port (?P<port>\d+) on \S+ failed: Permission denied"),
        statuses=(255,),
    ),
    entry(
        "sshd-address-missing",
        "The address[ {address}] that sshd should listen on does not belong to this host.",
        "Correct gpufabric_control_interface. If the address has changed, run key_exchange again.",
        signature("assign requested address", r"Bind to port \d+ on (?P<address>\S+?) failed: Cannot assign requested"),
        statuses=(255,),
    ),
    entry(
        "sshd-silent",
        "sshd runs, but [{does}|does not answer] on its own host[: {address} port {port}][, for {seconds} s].",
        "Check how the host's firewall treats connections to the host itself, whether its loopback interface is up (ip link show lo), and"
        " how busy the host is. The last lines of sshd's log are the evidence.",
        precedence=EFFECT,
        found_by="sshd_instance",
    ),
    entry(
        "sshd-tcp-wrappers",
        "TCP wrappers keep connections from sshd[, which closes them on its own host: {path} has the line {line}].",
        "Let the workers in, in /etc/hosts.allow: sshd: ADDRESSES. It goes before /etc/hosts.deny.",
        found_by="sshd_instance",
    ),
    entry(
        "sshd-ended",
        "sshd ended instead of listening[, with exit status {status}].",
        "The last lines of its log are the evidence. To see more, start an sshd by hand: /usr/sbin/sshd -D -d -p 2222.",
        precedence=EFFECT,
        found_by="sshd_instance",
    ),
    entry(
        "env-not-accepted",
        "sshd on the host drops [{variables}|environment variables], which mpirun needs to forward.",
        "Set AcceptEnv of the host's sshd to these variables: gpufabric_forward_env.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "env-not-sent",
        "ssh on the launcher does not send [{variables}|environment variables], which mpirun needs to forward.",
        "Set SendEnv of the launcher's ssh to these variables: gpufabric_forward_env.",
        severity="warning",
        found_by="mpi_preflight",
    ),
    entry(
        "host-unreachable",
        "Ansible cannot reach the host.",
        "Check that it is up, and its entry in the inventory (ansible_host, ansible_port, ansible_user). The playbook"
        " gpufabric.nccl.diagnose shows the step at which the login fails. If it can log in and later steps time out, the host hangs, or"
        " large packets are lost on the way from the controller: compare the MTU of both. To go on without it: --limit 'all:!NAME'.",
        found_by="the roles nccl_benchmark and preflight",
    ),
    entry(
        "python-missing",
        "The host has no Python, so the other checks were left out.",
        "Install python3, or set ansible_python_interpreter.",
        severity="warning",
        found_by="mpi_preflight",
    ),
)
