#!/usr/bin/python
# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: collect_peers
short_description: List the workers of a run
version_added: 0.2.0
description:
  - Checks what each worker returned, and makes the list of workers that the other modules take as C(peers).
  - Fails if a worker returned something else than M(gpufabric.nccl.sshd_instance) does, or if two workers are one machine. The error
    names the worker.
author:
  - gpufabric contributors (@gpufabric)
extends_documentation_fragment:
  - gpufabric.nccl.attributes
  - gpufabric.nccl.attributes.action
  - gpufabric.nccl.attributes.read_only
options:
  sshds:
    description: The result of M(gpufabric.nccl.sshd_instance), by the worker's name in the inventory; empty for a worker without a result.
    type: dict
    default: {}
  meshes:
    description: The result of M(gpufabric.nccl.ssh_mesh), in the same form. Used with O(skip_failed).
    type: dict
    default: {}
  skip_failed:
    description: Leave out the workers on which a step failed, or did not run, and list their problems instead.
    type: bool
    default: false
  hostfile:
    description: Instead of O(sshds), the workers of an MPIJob whose own sshds are used.
    type: dict
    suboptions:
      hosts:
        description: The hosts of the job's hostfile, as M(gpufabric.nccl.mpi_hostfile) returned them.
        type: list
        elements: dict
        required: true
      names:
        description: The worker pods, by their names in the inventory.
        type: list
        elements: str
        required: true
      run_dir:
        description: Directory of the run on each worker.
        type: str
        required: true
seealso:
  - module: gpufabric.nccl.sshd_instance
  - module: gpufabric.nccl.ssh_mesh
  - module: gpufabric.nccl.mpi_hostfile
"""

EXAMPLES = r"""
- name: Start a private sshd on every worker
  gpufabric.nccl.sshd_instance:
    run_id: nightly
  register: sshd

- name: List the workers
  gpufabric.nccl.collect_peers:
    sshds: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'sshd'))) }}"
  register: collected
  run_once: true
"""

RETURN = r"""
peers:
  description: The workers.
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: Its name in the inventory., type: str, sample: gpu-1}
    address: {description: The address that its sshd listens on., type: str, sample: 10.0.0.11}
    port: {description: The port that its sshd listens on., type: int, sample: 40001}
    user: {description: The user that can log in., type: str, sample: root}
    host_public_keys: {description: Its public host keys., type: list, elements: str, sample: ["ssh-ed25519 AAAA"]}
    client_public_key: {description: The public key with which it logs in to others., type: str, sample: ssh-ed25519 AAAB}
    run_dir: {description: Directory of the run on it., type: str, sample: /run/gpufabric/nightly}
    hostname: {description: Its host name., type: str, sample: gpu-1}
lost:
  description: The problems of each worker that was left out, by its name, as RV(problems).
  returned: success
  type: dict
  sample: {gpu-3: [{id: host-unreachable, severity: error, host: gpu-3}]}
problems:
  description: Why there is no list.
  returned: failure
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
"""
