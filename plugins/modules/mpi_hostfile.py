#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mpi_hostfile
short_description: Write a hostfile of numeric addresses for mpirun
version_added: 0.1.0
description:
  - Writes a hostfile for Open MPI, from a list of hosts or from an existing hostfile.
  - Resolves names on the launcher, waits for those that do not resolve yet, and writes numeric addresses, because
    Open MPI shortens names and may look them up elsewhere.
  - With O(claim), the run is claimed on this node before the file is written, and refused before the module waits for names.
seealso:
  - module: gpufabric.nccl.collect_peers
  - module: gpufabric.nccl.mpi_run
  - plugin: gpufabric.nccl.pod_addresses
    plugin_type: filter
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
      - The module waits for names in check mode too.
  action:
    support: full
    details:
      - While names do not resolve, the action shows which ones and why, after a few seconds and then every ten.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  hosts:
    description:
      - The hosts, in the order of their ranks.
      - Exactly one of O(hosts) and O(src) is required.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the host. Not needed if O(hosts[].address) is set.
          - Beside an address it may be any line of printable characters without braces, unless the file is to have names (O(numeric=false)).
        type: str
      address:
        description: Its numeric address. If it is set, the name is not resolved.
        type: str
      slots:
        description: How many ranks the host takes.
        type: int
        default: 1
  src:
    description:
      - Path of an existing hostfile on the node, such as the MPI Operator's C(/etc/mpi/hostfile).
      - If it has mistakes, such as a duplicate host, the module reports all of them with their line numbers.
    type: path
  dest:
    description:
      - Path of the file to write.
      - The default is C(mpi/hostfile) in the run's directory.
    type: path
  timeout:
    description: How long to wait for names to resolve, in seconds.
    type: float
    default: 120
  interval:
    description: How long to wait between two tries, in seconds.
    type: float
    default: 3
  part:
    description:
      - How long this call may wait for names, in seconds, if the wait is made in parts. If it ends before O(timeout) is over, the
        call succeeds, writes nothing, and returns RV(waiting).
      - The action sets it, to show how far the wait is. Playbooks do not need it.
    type: float
    version_added: 0.2.0
  earlier:
    description:
      - What the call for the part before returned as RV(resolution). The action sets it.
    type: dict
    version_added: 0.2.0
  rewrite_fqdn:
    description:
      - Whether to append the O(cluster_domain) to a name that ends in C(.svc).
      - V(auto) does so if the name as it stands does not resolve and the longer one does.
    type: str
    choices: [auto, "true", "false"]
    default: auto
  cluster_domain:
    description: Domain of the Kubernetes cluster.
    type: str
    default: cluster.local
  expected:
    description:
      - The address that each name must have, if another source such as the Kubernetes API knows it.
      - If a name resolves to another address, the module waits as if the name did not resolve. The address may be that of
        an earlier pod of the same name.
      - A dictionary of addresses by names, each in any of the forms C(POD), C(POD.SERVICE), C(POD.SERVICE.NAMESPACE),
        C(POD.SERVICE.NAMESPACE.svc) and the same with the O(cluster_domain). The hostfile may use other forms.
        The names that agree in most parts belong together.
      - Names that belong to no host are ignored. Hosts without an entry get the address that they resolve to.
    type: dict
    version_added: 0.2.0
  use_expected:
    description:
      - Whether hosts in O(expected) get that address without a look-up. The hostfile then needs no DNS.
      - It is not the default, because wrong names break a job's own launcher and other programs that use them.
        Not possible with O(numeric=false).
    type: bool
    default: false
    version_added: 0.2.0
  numeric:
    description: Whether to write numeric addresses, rather than the names that resolve.
    type: bool
    default: true
  subnet:
    description:
      - The control network. If a host has several addresses, the module takes the one in this subnet.
      - Mutually exclusive with O(interface).
    type: str
  interface:
    description:
      - As O(subnet), but given by the interface that this node has on the control network.
      - If a host has no address in the interface's own subnet, the module takes the one that this node reaches by the
        interface. Pods often have a subnet for each node.
    type: str
"""

EXAMPLES = r"""
- name: Write a hostfile for two nodes with eight GPUs each
  gpufabric.nccl.mpi_hostfile:
    hosts:
      - {name: gpu-1, address: 10.0.0.11, slots: 8}
      - {name: gpu-2, address: 10.0.0.12, slots: 8}

- name: Wait for the names of a Kubeflow MPIJob's workers and take their addresses
  gpufabric.nccl.mpi_hostfile:
    src: /etc/mpi/hostfile
    interface: eth0
  register: hostfile

- name: Use the workers' addresses from the cluster, whether or not their names resolve
  gpufabric.nccl.mpi_hostfile:
    src: /etc/mpi/hostfile
    expected: "{{ pods.resources | gpufabric.nccl.pod_addresses }}"
    use_expected: true
"""

RETURN = r"""
path:
  description: Path of the hostfile.
  returned: success
  type: str
  sample: /run/gpufabric/default/mpi/hostfile
hosts:
  description: The hosts in it.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The given name, with the cluster domain if that was needed.
      type: str
      sample: worker-0.job.default.svc.cluster.local
    address:
      description: Its numeric address.
      type: str
      sample: 10.0.0.11
    slots:
      description: Number of ranks that it takes.
      type: int
      sample: 8
waiting:
  description: Why each open name does not resolve, or to which wrong address it does.
  returned: if O(part) ended while names were open and O(timeout) was not over
  type: dict
  sample: {"worker-3.job.default.svc": "Name or service not known"}
  version_added: 0.2.0
resolution:
  description: How far the wait is, for O(earlier) of the next call.
  returned: with RV(waiting)
  type: dict
  sample: {"found": {}, "stale": {}, "errors": {"worker-3": "Name or service not known"}, "waited": 3.0, "late": {}}
  version_added: 0.2.0
waited:
  description: How long the module waited for names, in seconds.
  returned: success
  type: float
  sample: 6.1
unresolved:
  description: Names that did not resolve in time.
  returned: failure for that reason
  type: list
  elements: str
  sample: [worker-3.job.default.svc]
stale:
  description: Names that resolved to another address than the one in O(expected).
  returned: failure for that reason
  type: list
  elements: dict
  contains:
    name:
      description: The name.
      type: str
      sample: worker-0.job.default.svc
    addresses:
      description: The addresses that it resolves to.
      type: list
      elements: str
      sample: [10.0.0.7]
    expected:
      description: The address that it should have.
      type: str
      sample: 10.0.0.11
lookup_errors:
  description: The last error of the node's resolver for each name that has no address.
  returned: failure for that reason
  type: dict
  sample: {"worker-3.job.default.svc": "Name or service not known"}
evidence:
  description: The texts of the hostfile, C(/etc/resolv.conf) and C(/etc/hosts), by path.
  returned: failure for that reason
  type: dict
  sample: {"/etc/resolv.conf": "nameserver 10.96.0.10\n"}
problems:
  description: Problems of names that resolved late, did not resolve, or belong to another host. A name that resolved late is a warning.
  returned: success, and failure for that reason
  type: list
  elements: dict
  version_added: 0.2.0
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
"""

import dataclasses
import math
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.node_catalogue import NODE_CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.run_module import run_module
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import NodeError, OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._files import is_file_or_nothing, read_text, write_text
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.hostfile import (
    is_cluster_domain,
    match_expected,
    parse_hostfile,
    parse_hosts,
    render_hostfile,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._mpi.resolution import (
    ControlNetwork,
    Resolution,
    Resolver,
    UnresolvedNames,
    late_problem,
    resolve_hosts,
    source_address,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._net import (
    choose_address,
    parse_subnet,
    read_addresses,
    subnet_of,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.cleanup import remove_replaced
from ansible_collections.gpufabric.nccl.plugins.module_utils._node.ownership import CLAIM_ARGUMENT_SPEC, Ownership
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RUN_ARGUMENT_SPEC, RunDir


def run(params: dict, check_mode: bool) -> dict:
    """Write the hostfile; what the module returns. Raises GpufabricError."""
    run_dir = RunDir(params["run_id"], params["run_dir"])
    path = params["dest"] or run_dir.hostfile
    for option in ("timeout", "interval", "part"):
        if params[option] is not None and not params[option] >= 0:
            raise OptionError(option, params[option], "0 or more seconds")
    if params["src"] is None:
        hosts = parse_hosts(params["hosts"], params["numeric"])
    else:
        text = read_text(params["src"], "src")
        if text is None:
            raise OptionError("src", params["src"], "the path of a hostfile on this node")
        hosts = parse_hostfile(text, params["src"])
    domain = params["cluster_domain"]
    if not is_cluster_domain(domain):
        raise OptionError("cluster_domain", domain, "a domain name, such as cluster.local")
    expected = match_expected(hosts, params["expected"] or {}, domain)
    if params["use_expected"]:
        if not params["numeric"]:
            raise OptionError("use_expected", True, "false where numeric is false: the names in the file must resolve")
        hosts = [dataclasses.replace(host, address=host.address or expected.get(host.name)) for host in hosts]
    control = control_network(params["subnet"], params["interface"])
    if params["dest"] is None:
        run_dir.check()
    elif not is_file_or_nothing(path) or not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        raise OptionError("dest", path, "a path in a directory that exists and can be written")
    ownership = Ownership(run_dir, params["claim"])
    ownership.check()

    part = math.inf if params["part"] is None else params["part"]
    resolver = Resolver(params["timeout"], params["interval"], part=part, earlier=resolution(params["earlier"]))
    try:
        resolved, answer = resolve_hosts(hosts, resolver, params["rewrite_fqdn"], domain, control, expected)
    except UnresolvedNames as error:
        if error.answer.has_time:
            return {
                "changed": False,
                "waiting": error.waiting(),
                "waited": round(error.answer.waited, 1),
                "resolution": dataclasses.asdict(error.answer),
            }
        error.details = {**error.details, "evidence": evidence(params["src"])}
        raise
    replaced = remove_replaced(ownership, run_dir, check_mode)
    before = None if replaced and params["dest"] is None else read_text(path)
    after = render_hostfile((address if params["numeric"] else name, host.slots) for host, name, address in resolved)
    if not check_mode:
        ownership.take()
    if before != after and not check_mode:
        if params["dest"] is None:
            run_dir.create(run_dir.mpi)
        write_text(path, after, 0o644)
    return {
        "changed": replaced or before != after,
        "diff": {"before": before or "", "after": after, "before_header": path, "after_header": path},
        "path": path,
        "hosts": [{"name": name, "address": address, "slots": host.slots} for host, name, address in resolved],
        "waited": round(answer.waited, 1),
        "problems": [late_problem(name, seconds).as_dict() for name, seconds in answer.late.items()],
    }


def resolution(earlier: dict | None) -> Resolution | None:
    """What came of the parts of a wait before this one. Raises OptionError."""
    try:
        return None if earlier is None else Resolution.from_dict(earlier)
    except (LookupError, TypeError, ValueError):
        raise OptionError("earlier", earlier, "what the call for the part before returned as resolution") from None


def control_network(subnet: str | None, interface: str | None) -> ControlNetwork | None:
    """The control network as the options mean it, if they do. Raises GpufabricError."""
    if subnet is not None:
        network = parse_subnet("subnet", subnet)
        return ControlNetwork(network, str(network))
    if interface is None:
        return None
    addresses = read_addresses()
    own, network = choose_address(addresses, interface=interface), subnet_of(addresses, interface)
    text = f"{network}, and none that this node reaches by {interface}"
    return ControlNetwork(network, text, lambda address: source_address(address) == own)


def evidence(src: str | None) -> dict[str, str]:
    """The texts that tell why names do not resolve, by path."""
    found = {}
    for path in (*([src] if src else []), "/etc/resolv.conf", "/etc/hosts"):
        try:
            text = read_text(path)
        except NodeError as error:
            text = str(error)
        if text is not None:
            found[path] = text
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **RUN_ARGUMENT_SPEC,
            **CLAIM_ARGUMENT_SPEC,
            "hosts": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "name": {"type": "str"},
                    "address": {"type": "str"},
                    "slots": {"type": "int", "default": 1},
                },
            },
            "src": {"type": "path"},
            "dest": {"type": "path"},
            "timeout": {"type": "float", "default": 120},
            "interval": {"type": "float", "default": 3},
            "part": {"type": "float"},
            "earlier": {"type": "dict"},
            "rewrite_fqdn": {"type": "str", "choices": ["auto", "true", "false"], "default": "auto"},
            "cluster_domain": {"type": "str", "default": "cluster.local"},
            "expected": {"type": "dict"},
            "use_expected": {"type": "bool", "default": False},
            "numeric": {"type": "bool", "default": True},
            "subnet": {"type": "str"},
            "interface": {"type": "str"},
        },
        mutually_exclusive=[("hosts", "src"), ("subnet", "interface")],
        required_one_of=[("hosts", "src")],
        supports_check_mode=True,
    )
    run_module(module, run, NODE_CATALOGUE.problems_in)


if __name__ == "__main__":
    main()
