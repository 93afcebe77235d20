# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what the catalogue of causes names exists: variables, options, modules, roles, playbooks and pages."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest
import yaml
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.diagnose import CATALOGUE
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import filled

ROOT = pathlib.Path(__file__).parents[5]
#: What others named.
FOREIGN = {
    "variables of Ansible": {
        *(
            "ansible_become_password",
            "ansible_host",
            "ansible_pipelining",
            "ansible_port",
            "ansible_python_interpreter",
        ),
        *("ansible_ssh_private_key_file", "ansible_user"),
    },
    "parameters of Open MPI": {"btl_tcp_if_include", "plm_rsh_agent", "plm_ssh_agent"},
    "programs and modules of the kernel": {"fi_info", "ib_write_bw", "ibv_devinfo", "nvidia_peermem", "show_gids"},
    "files and settings of ssh, PAM and SELinux": {
        *("authorized_keys", "known_hosts", "pam_access", "pam_limits", "pam_nologin", "pam_slurm", "ssh_port_t"),
    },
}
#: Roles whose variables the templates name by the fact ``prefix``.
PREFIXES = ("worker_pods_", "mpijob_")


def documented(path):
    """The documentation that a plugin, or a fragment of documentation, has."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION":
            yield yaml.safe_load(node.value.value)


def existing_names():
    """The modules, the roles, the options of both, and the variables that playbooks alone have."""
    names = {path.name for path in ROOT.glob("roles/*")}
    names |= set(yaml.safe_load((ROOT / "scripts/site.d/texts.yml").read_text(encoding="utf-8"))["variables"])
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry_point in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            names |= set(entry_point.get("options", {}))
    for folder in ("modules", "doc_fragments"):
        for path in ROOT.glob(f"plugins/{folder}/*.py"):
            names.add(path.stem)
            names.update(option for page in documented(path) for option in page.get("options", {}))
    return names


def texts_of(entry):
    return [
        *(filled(template, {"prefix": prefix}) for template in (entry.cause, entry.cure) for prefix in PREFIXES),
        *(entry.cause, entry.cure, entry.found_by),
    ]


def unknown_names(text, known):
    """Words with an underscore that nothing of the collection, or of others, is called."""
    words = re.findall(r"(?<![\w.{|/\]-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b", text)
    return [word for word in words if word not in known.union(*FOREIGN.values())]


def unknown_places(text):
    """Playbooks and pages of the documentation that are not there."""
    for name in re.findall(r"\bplaybook (?:gpufabric\.nccl\.)?(\w+)", text):
        if not (ROOT / "playbooks" / f"{name}.yml").exists():
            yield f"playbook {name}"
    for page, anchor in re.findall(r"\b(docs/\S+?\.md)(?:#([\w-]+))?", text):
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines() if (ROOT / page).exists() else []
        headings = {line.lstrip("# ").lower().replace(" ", "-") for line in lines if line.startswith("#")}
        if not lines or (anchor and anchor not in headings):
            yield f"{page} {anchor}"


@pytest.fixture(scope="module")
def known():
    return existing_names()


def test_what_the_catalogue_names_exists(known):
    wrong = {}
    for entry in CATALOGUE.entries.values():
        for text in texts_of(entry):
            missing = [*unknown_names(text, known), *unknown_places(text)]
            if missing:
                wrong[entry.id] = missing
    assert wrong == {}


def test_what_others_named_is_named():
    texts = " ".join(text for entry in CATALOGUE.entries.values() for text in texts_of(entry))
    assert [name for names in FOREIGN.values() for name in sorted(names) if name not in texts] == []


def test_a_name_that_is_missing_is_seen(known):
    assert {"key_exchange", "mpi_run", "use_expected", "worker_pods_shm_size", "run_dir"} <= known
    assert unknown_names("Set gpufabric_slots, key_exchange_port: 0.", known) == ["gpufabric_slots"]
    assert list(unknown_places("Run the playbook repair.")) == ["playbook repair"]
    assert list(unknown_places("See docs/openmpi.md#nowhere, docs/no.md.")) == [
        "docs/openmpi.md nowhere",
        "docs/no.md ",
    ]


@pytest.mark.parametrize(
    ("option", "variable"),
    [
        ("orphan_timeout", "nccl_benchmark_orphan_timeout"),
        ("output_limit", "nccl_benchmark_output_limit"),
        ("rewrite_fqdn", "mpijob_rewrite_fqdn"),
        ("run_dir", "gpufabric_run_dir"),
        ("silence_timeout", "nccl_benchmark_silence_timeout"),
        ("startup_timeout", "nccl_benchmark_startup_timeout"),
        ("time_limit", "nccl_benchmark_time_limit"),
        ("timeout", "mpijob_dns_timeout"),
    ],
)
def test_a_cure_names_the_variable_of_playbooks_too(option, variable, known):
    """``-e run_dir=PATH`` changes nothing: it is an option of modules alone."""
    cures = {
        entry.id: entry.cure for entry in CATALOGUE.entries.values() if re.search(rf"(?<!{{)\b{option}\b", entry.cure)
    }
    assert variable in known
    assert cures and all(variable in cure for cure in cures.values()), cures


def test_a_cure_names_the_playbook_of_a_check_too():
    """Who runs playbooks has no task in which he could set the level of a module."""
    cures = {entry.id: entry.cure for entry in CATALOGUE.entries.values() if "mpi_preflight" in entry.cure}
    assert cures and all("the playbook diagnose" in cure for cure in cures.values()), cures


def test_a_cure_changes_no_hostfile_that_the_next_run_writes_anew():
    cures = {entry.id: entry.cure for entry in CATALOGUE.entries.values()}
    assert [identity for identity, cure in cures.items() if "from the hostfile" in cure] == []
    # -g and -t are refused in nccl_benchmark_extra_args, and slots are those of the ranks.
    devices = [cure for cure in cures.values() if "-g and -t" in cure]
    assert len(devices) == 4
    for cure in devices:
        for name in ("gpus_per_rank", "threads_per_rank", "ranks_per_node"):
            assert f"nccl_benchmark_{name}" in cure


def test_the_cure_for_mpi4py_says_where_pythons_of_rhel_find_it():
    """Its package is for ``module load``: without MPI_PYTHON3_SITEARCH, openmpi.pth adds no directory, and the import fails as before."""
    cure = CATALOGUE.entries["python-module-missing"].cure
    assert (
        cure.index("python3-mpi4py-openmpi") < cure.index("gpufabric_environment") < cure.index("site-packages/openmpi")
    )
