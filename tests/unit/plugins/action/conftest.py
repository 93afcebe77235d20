# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Planning actions, as a task of their role calls them."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection.local import Connection
from ansible.template import Templar

ROLES = pathlib.Path(__file__).parents[4] / "roles"


class Role:
    """What an action reads of its task's role."""

    def __init__(self, name):
        self._name, self._role_path = name, str(ROLES / name)

    def get_name(self, include_role_fqcn=True):
        return self._name

    def get_vars(self):
        return {}

    def get_role_params(self):
        return {}


class Vaulted:
    """A text behind ``!vault``, as ansible-core has it before 2.19."""

    __ENCRYPTED__ = True

    def __str__(self):
        return "hunter2"


@pytest.fixture
def vaulted():
    return Vaulted()


@pytest.fixture
def planned():
    """What an action returns, called by a task of a role with the role's defaults and other variables."""

    def plan(action, role, arguments, **variables):
        defaults = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())
        task, context, loader = Task(), PlayContext(), DataLoader()
        task.args, task._role = arguments, Role(role)
        given = {"groups": {"all": []}, "hostvars": {}, **defaults, **variables}
        task_vars = {name: value for name, value in given.items() if "{{" not in str(value)}
        module = action(task, Connection(context), context, loader, Templar(loader, variables=task_vars), None)
        return module.run(task_vars=task_vars)

    return plan
