# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the files that describe the collection agree with each other and with what there is."""

from __future__ import annotations

import os
import pathlib
import re

import jinja2
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.problem import ProblemDict
from ansible_collections.gpufabric.nccl.plugins.module_utils._run_dir import RunDir
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import told_by_node
from packaging.specifiers import SpecifierSet

try:
    from ansible.template import trust_as_template
except ImportError:
    # Before ansible-core 2.19 all texts are.
    trust_as_template = str

ROOT = pathlib.Path(__file__).parents[2]


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text())


def test_action_group_names_every_module():
    assert read_yaml("meta/runtime.yml")["action_groups"]["all"] == sorted(
        path.stem for path in (ROOT / "plugins/modules").glob("*.py")
    )


@pytest.mark.parametrize(
    ("group", "options"), [("run", {"run_id", "run_dir"}), ("cluster", {"kubeconfig", "context", "namespace"})]
)
def test_an_action_group_names_the_modules_that_have_its_options(group, options):
    fragment = re.search(r'r"""(.*?)"""', (ROOT / f"plugins/doc_fragments/{group}.py").read_text(), re.DOTALL).group(1)
    assert set(yaml.safe_load(fragment)["options"]) == options
    assert read_yaml("meta/runtime.yml")["action_groups"][group] == sorted(
        path.stem
        for path in (ROOT / "plugins/modules").glob("*.py")
        if f"\n  - gpufabric.nccl.{group}\n" in path.read_text()
    )


def first_tasks(playbook):
    """The tasks of a playbook's first play that does more than to assert something, or of the playbook that it imports first."""
    for play in read_yaml(f"playbooks/{playbook}"):
        if "ansible.builtin.import_playbook" in play or "import_playbook" in play:
            return first_tasks("bare_metal.yml") if "bare_metal" in str(play) else []
        tasks = play.get("pre_tasks") or play["tasks"]
        if any("ansible.builtin.assert" not in task for task in tasks):
            return tasks
    return []


@pytest.mark.parametrize("playbook", sorted(path.name for path in (ROOT / "playbooks").glob("*.yml")))
def test_every_playbook_begins_with_the_version_of_ansible(playbook):
    assert first_tasks(playbook)[0]["ansible.builtin.import_tasks"] == "tasks/begin.yml"


@pytest.mark.parametrize("playbook", ["bare_metal", "diagnose", "teardown"])
def test_no_limit_leaves_out_these_checks(playbook):
    """``--limit`` leaves out the plays of the controller."""
    plays = [play for play in read_yaml(f"playbooks/{playbook}.yml") if play["hosts"] != "localhost"]
    assert plays[0]["tasks"][0]["ansible.builtin.import_tasks"] == "tasks/begin.yml"


def test_every_play_over_workers_has_the_environment_that_its_user_sets():
    """What a module needs to start, such as TMPDIR where /tmp cannot be written, its removal needs too."""
    plays = [play for path in (ROOT / "playbooks").glob("*.yml") for play in read_yaml(f"playbooks/{path.name}")]
    workers = [play for play in plays if re.match(r"\{\{ (gpufabric_target|worker_pods_group) ", play.get("hosts", ""))]
    assert len(workers) == 6
    wanted = "{{ gpufabric_environment | default({}) }}"
    assert [play["name"] for play in workers if play.get("environment") != wanted] == []


@pytest.mark.parametrize(
    ("version", "allowed"),
    [
        *((version, False) for version in ("2.9.27", "2.15.13", "2.16.0", "2.16.13", "2.17.0", "2.17.6", "2.18.0")),
        *((version, True) for version in ("2.16.14", "2.16.18", "2.17.7", "2.18.1", "2.19.0", "2.20.1", "3.0.0")),
    ],
)
def test_releases_of_ansible_where_a_worker_could_run_commands_are_refused(version, allowed):
    task = read_yaml("playbooks/tasks/begin.yml")[0]
    major, minor, revision = map(int, version.split("."))
    facts = {"full": version, "major": major, "minor": minor, "revision": revision}
    condition = task["ansible.builtin.assert"]["that"]
    assert jinja2.Environment().compile_expression(condition)(ansible_version=facts) is allowed
    assert SpecifierSet(read_yaml("meta/runtime.yml")["requires_ansible"]).contains(version) is allowed
    (needed,) = re.findall(r"^ansible-core(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert needed == read_yaml("meta/runtime.yml")["requires_ansible"]


def test_tests_run_on_the_oldest_ansible():
    assert '"ansible-core==2.16.14"' in (ROOT / "scripts/ansible-core").read_text()


def test_a_stopped_play_names_the_log_that_there_is():
    stop = read_yaml("roles/preflight/tasks/main.yml")[-1]["gpufabric.nccl.fail_with_problems"]
    assert RunDir("nightly", "/run/a").sshd_log.replace("/run/a/", "'/", 1) + " on each worker'" in stop["logs"]


def made_facts(value):
    """The arguments of all tasks that make facts."""
    if isinstance(value, dict):
        own = [value["ansible.builtin.set_fact"]] if "ansible.builtin.set_fact" in value else []
        return own + [fact for item in value.values() for fact in made_facts(item)]
    return [fact for item in value for fact in made_facts(item)] if isinstance(value, list) else []


def test_no_fact_is_made_of_hostvars_by_an_expression():
    """On ansible-core 2.16 to 2.18 text that a filter makes of hostvars is run as a template when the fact is read."""
    files = [path for place in ("roles", "playbooks") for path in (ROOT / place).rglob("*.yml")]
    facts = [(path, fact) for path in files for fact in made_facts(yaml.safe_load(path.read_text()))]
    assert len(facts) > 10
    assert [(str(path), fact) for path, fact in facts if "hostvars" in str(fact)] == []


def documentation_of(module, part="DOCUMENTATION"):
    text = (ROOT / "plugins/modules" / f"{module}.py").read_text()
    return yaml.safe_load(re.search(rf'^{part} = r"""(.*?)"""', text, re.M | re.S).group(1)) or {}


def takes_variables(options):
    """Whether one of a module's options takes environment variables with their values."""
    return any(
        (name in ("env", "environment") and option["type"] == "dict") or takes_variables(option.get("suboptions", {}))
        for name, option in options.items()
    )


def test_values_of_variables_are_not_in_the_log_of_the_node():
    """Ansible writes the arguments of each module to the node's system log, unless the module says otherwise."""
    found = set()
    for path in (ROOT / "plugins/modules").glob("*.py"):
        text = path.read_text()
        documentation = documentation_of(path.stem)
        # Actions of that name run on the controller, and write no log.
        if takes_variables(documentation.get("options", {})) and re.search(r"^    module = ", text, re.M):
            found.add(path.stem)
            assert "module = QuietModule(" in text, path.stem
    assert found == {"mpi_preflight", "mpi_run", "sshd_instance"}


def test_collections_for_development_are_the_dependencies():
    def numbers(version):
        return [int(part) for part in version.split(".")]

    installed = {entry["name"]: entry["version"] for entry in read_yaml("requirements.yml")["collections"]}
    lowest = {name: version.removeprefix(">=") for name, version in read_yaml("galaxy.yml")["dependencies"].items()}
    # What only one role needs.
    (check, *_others) = read_yaml("roles/local_nodes/tasks/main.yml")
    optional = dict(entry.split(":>=") for entry in check["gpufabric.nccl.check_variables"]["collections"])
    lowest.update(optional)
    # Of an example.
    assert optional and installed.keys() == {*lowest, "awx.awx"}
    assert all(numbers(installed[name]) >= numbers(lowest[name]) for name in lowest)


def test_all_that_is_installed_is_locked_by_hash():
    locked = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / "requirements.lock").read_text())[1:]
    assert len(locked) > 50
    assert [
        entry
        for entry in locked
        if not re.match(r"[A-Za-z0-9_.-]+==\S+( ; .*)? \\\n +--hash=sha256:[0-9a-f]{64}\b", entry)
    ] == []


def test_libraries_are_among_the_requirements_of_the_modules_that_need_them():
    places = [*ROOT.glob("plugins/modules/*.py"), ROOT / "plugins/doc_fragments/cluster.py"]
    lists = re.findall(r"^requirements:\n((?:  - .*\n)+)", "\n".join(path.read_text() for path in places), re.M)
    named = {
        library + version for text in lists for library, version in re.findall(r"([a-z-]+) >= ([0-9.]*[0-9])", text)
    }
    needed = (ROOT / "meta/ee-requirements.txt").read_text().replace(">=", "").split()
    assert named == set(needed)


def test_requirements_have_lower_bounds_only():
    lines = (ROOT / "meta/ee-requirements.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z-]+>=[0-9.]+", line) or line.startswith("ansible")] == []


@pytest.mark.parametrize("specs", sorted(ROOT.glob("roles/*/meta/argument_specs.yml")), ids=lambda path: path.parts[-3])
def test_role_defaults_are_the_documented_ones(specs):
    options = yaml.safe_load(specs.read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((specs.parents[1] / "defaults/main.yml").read_text())
    # Specs cannot hold templates.
    values = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    assert values == {name: option["default"] for name, option in options.items() if "default" in option}
    assert [name for name in defaults if name not in options] == []


@pytest.mark.parametrize("specs", sorted(ROOT.glob("roles/*/meta/argument_specs.yml")), ids=lambda path: path.parts[-3])
def test_every_entry_point_of_a_role_says_since_when_it_is_there(specs):
    """The changelog lists a new role by it."""
    entry_points = yaml.safe_load(specs.read_text())["argument_specs"]
    assert [name for name, entry_point in entry_points.items() if "version_added" not in entry_point] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("changelogs/fragments/*.yml")), ids=lambda path: path.stem)
def test_fragments_have_no_markup_of_module_documentation(path):
    """antsibull-changelog shows it literally."""
    assert re.findall(r"\b(?:[BCEILMOPRUV]|RV)\([^)]*\)", path.read_text()) == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("roles/*/meta/main.yml")), ids=lambda path: path.parts[-3])
def test_roles_are_for_the_releases_that_the_collection_is_for(path):
    least = yaml.safe_load(path.read_text())["galaxy_info"]["min_ansible_version"]
    assert read_yaml("meta/runtime.yml")["requires_ansible"].split(",")[0] == f">={least}"


def entry_points():
    """Role, name and content of each entry point of all roles."""
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        for name, content in yaml.safe_load(path.read_text())["argument_specs"].items():
            yield path.parts[-3], name, content


def test_a_variable_is_described_by_the_same_words_in_all_roles():
    """What is different in a role, such as the default, stands in further paragraphs. A role may also refer to the variable's own role."""
    first = {}
    for role, entry_point, content in entry_points():
        for name, option in content.get("options", {}).items():
            description = option["description"]
            paragraph = description if isinstance(description, str) else description[0]
            if not re.fullmatch(rf"As O\(gpufabric\.nccl\.(?!{role}#)\w+#role:main:{name}\)\.", paragraph):
                first.setdefault(name, {}).setdefault(paragraph, []).append(f"{role}.{entry_point}")
    assert len(first) > 100
    assert {name: places for name, places in first.items() if len(places) > 1} == {}


#: The options of modules that variables of roles are handed to.
HANDED_ON = {
    "preflight_expect": ("mpi_preflight", "expect"),
    "report_assertions": ("nccl_result", "assertions"),
    "report_thresholds": ("nccl_result", "thresholds"),
}


@pytest.mark.parametrize("variable", sorted(HANDED_ON))
def test_a_variable_has_the_keys_of_the_option_that_it_is_handed_to(variable):
    def kinds(keys):
        facts = ("type", "elements", "default", "required")
        return {key: {fact: value[fact] for fact in facts if fact in value} for key, value in keys.items()}

    module, option = HANDED_ON[variable]
    keys = kinds(documentation_of(module)["options"][option]["suboptions"])
    found = [
        content["options"][variable]["options"] for *_where, content in entry_points() if variable in content["options"]
    ]
    assert found and all(kinds(options) == keys for options in found)


def test_a_variable_has_the_same_default_in_all_roles():
    defaults = {}
    for path in sorted(ROOT.glob("roles/*/defaults/main.yml")):
        for name, value in yaml.safe_load(path.read_text()).items():
            defaults.setdefault(name, []).append(value)
    assert {name: values for name, values in defaults.items() if any(value != values[0] for value in values)} == {}


def return_values(path):
    """The values that a module or filter returns, and all that they contain: names from the top, and content."""
    todo = [((name,), value) for name, value in returned_by(path).items()]
    for names, value in todo:
        todo += [((*names, name), content) for name, content in value.get("contains", {}).items()]
    return todo


def returned_by(path):
    return (
        yaml.safe_load(path.read_text())["RETURN"] if path.suffix == ".yml" else documentation_of(path.stem, "RETURN")
    )


PLUGINS = sorted([*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/filter/*.yml")])


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: path.stem)
def test_return_values_have_samples(path):
    values = return_values(path)
    without = [names for names, value in values if "contains" not in value and value.get("sample", "") in ([], {}, "")]
    assert without == []


def test_problems_are_described_by_the_same_words_everywhere():
    """Fragments of documentation cannot have return values."""
    found = {
        (path.stem, *names): value["contains"]
        for path in PLUGINS
        for names, value in return_values(path)
        if "cure" in value.get("contains", {}) or (names[-1] == "problems" and value.get("elements") == "dict")
    }
    assert len(found) > 10
    first = next(iter(found.values()))
    assert set(first) == set(ProblemDict.__annotations__)
    assert {names: keys for names, keys in found.items() if keys != first} == {}


#: What the roles worker_pods and mpijob do differently, by the end of the variable's name.
OWN_TO_PODS = {"command", "env", "gpus", "image", "keep", "pod_spec", "python_interpreter", "replicas", "timeout"}


def test_kubectl_gets_the_path_that_the_modules_get():
    """Those replace a tilde, and kubectl does not."""
    (text,) = (
        task["ansible.builtin.add_host"]["ansible_kubectl_kubeconfig"]
        for task in read_yaml("roles/worker_pods/tasks/join.yml")
        if "ansible.builtin.add_host" in task
    )
    templar = Templar(DataLoader(), variables={"gpufabric_kubeconfig": "~/kube.yml"})
    assert templar.template(trust_as_template(text)) == os.path.expanduser("~/kube.yml")


def test_a_variable_of_pods_means_the_same_in_both_roles():
    pods, job = (
        {name[len(role) + 1 :]: option for name, option in options_of(role).items() if name.startswith(f"{role}_")}
        for role in ("worker_pods", "mpijob")
    )
    shared = set(pods) & set(job)
    assert shared > OWN_TO_PODS
    assert {name: (pods[name], job[name]) for name in shared - OWN_TO_PODS if pods[name] != job[name]} == {}


def options_of(role):
    text = (ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text()
    return yaml.safe_load(text)["argument_specs"]["main"]["options"]


@pytest.mark.parametrize("playbook", sorted(ROOT.glob("playbooks/*.yml")), ids=lambda path: path.stem)
def test_plays_over_several_hosts_have_their_strategy(playbook):
    """A user's ansible.cfg may have the strategy free, with which a worker's tasks do not wait for those of the others."""
    plays = [play for play in yaml.safe_load(playbook.read_text()) if play.get("hosts", "localhost") != "localhost"]
    assert [play["name"] for play in plays if play.get("strategy") != "ansible.builtin.linear"] == []


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_what_is_private_to_a_role_is_used_by_no_other(role):
    private = re.compile(rf"(?<!\w)_{role}_\w+|/\.\./{role}/")
    files = [path for place in ("roles", "playbooks") for path in (ROOT / place).rglob("*.yml")]
    others = [path for path in files if ROOT / "roles" / role not in path.parents]
    assert len(others) > 20
    found = {str(path.relative_to(ROOT)): private.findall(path.read_text()) for path in others}
    assert {path: names for path, names in found.items() if names} == {}


#: Actions that run nothing on a host.
OF_THE_CONTROLLER = {
    "ansible.builtin.add_host",
    "ansible.builtin.assert",
    "ansible.builtin.debug",
    "ansible.builtin.fail",
    "ansible.builtin.meta",
    "ansible.builtin.set_fact",
    "ansible.builtin.set_stats",
    *(f"ansible.builtin.{kind}_{what}" for kind in ("import", "include") for what in ("playbook", "role", "tasks")),
}
#: Tasks of the roles that plays of the controller include: they make nodes, ask the cluster, and write what comes of it.
ON_LOCALHOST = {
    "local_nodes": {"containers.podman"},
    "mpijob": {"ansible.builtin.copy", "kubernetes.core"},
    "worker_pods": {"kubernetes.core"},
}


def modules_on_hosts(node, on_localhost=False):
    """The modules that the tasks in a YAML document run on hosts of the inventory."""
    for item in node if isinstance(node, list) else []:
        yield from modules_on_hosts(item, on_localhost)
    if not isinstance(node, dict):
        return
    on_localhost |= "localhost" in (node.get("delegate_to"), node.get("hosts"))
    if node.get("gather_facts", "tasks" in node):
        yield "ansible.builtin.setup"
    for key, value in node.items():
        if key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers"):
            yield from modules_on_hosts(value, on_localhost)
        elif key.count(".") == 2 and key not in OF_THE_CONTROLLER and not on_localhost:
            yield key


def test_no_module_of_others_runs_on_a_worker():
    """Ansible obeys what a worker answers in its place: facts, and with them commands on the controller."""
    found = set()
    for place in ("roles", "playbooks"):
        for path in (ROOT / place).rglob("*.yml"):
            names = path.relative_to(ROOT).parts
            allowed = ON_LOCALHOST.get(names[1], set()) if place == "roles" else set()
            for module in modules_on_hosts(yaml.safe_load(path.read_text())):
                if not {module, module.rpartition(".")[0]} & allowed:
                    found.add(("/".join(names), module))
    assert len(found) > 20
    assert sorted(entry for entry in found if not entry[1].startswith("gpufabric.nccl.")) == []


def tasks_and_plays(node):
    """The dictionaries in a YAML document."""
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        yield from tasks_and_plays(item)
    if isinstance(node, dict):
        yield node


def test_what_runs_on_the_controller_does_so_as_the_user_there():
    """ansible_become of an inventory's group all counts for the controller too, and more than the keyword become."""
    paths = [path for place in ("roles", "playbooks") for path in (ROOT / place).rglob("*.yml")]
    found = [
        node["vars"] for path in paths for node in tasks_and_plays(yaml.safe_load(path.read_text())) if "vars" in node
    ]
    on_controller = [names for names in found if "ansible_python_interpreter" in (names or {})]
    assert len(on_controller) > 10
    assert [names for names in on_controller if names.get("ansible_become") is not False] == []


@pytest.mark.parametrize(
    ("hosts", "removes"),
    [(["g1", "g2"], ["g1", "g2", "failed"]), (["g1"], ["g1"]), (["g1", "failed"], ["g1", "failed"])],
)
def test_a_teardown_in_the_always_of_a_block_is_for_hosts_that_failed_too(hosts, removes):
    """They are none of ansible_play_hosts by then, which gpufabric_hosts is if nobody sets it."""
    (task,) = [
        task for task in read_yaml("roles/key_exchange/tasks/teardown.yml") if "gpufabric.nccl.run_cleanup" in task
    ]
    is_met = jinja2.Environment().compile_expression(task["when"])
    play = {"ansible_play_hosts": ["g1", "g2"], "ansible_play_hosts_all": ["g1", "g2", "failed"]}
    variables = {**play, "gpufabric_hosts": hosts}
    found = [host for host in play["ansible_play_hosts_all"] if is_met(**variables, inventory_hostname=host)]
    assert found == removes


#: Variables of roles that a playbook sets itself, by the reason: an inventory's has no effect there.
SET_BY_PLAYBOOKS = {
    "the run is one of its own, with a variable of its own for the name": {
        ("diagnose.yml", "gpufabric_run_id"),
        ("isolate.yml", "gpufabric_run_id"),
    },
    "a diagnosis looks at everything": {("diagnose.yml", "preflight_level")},
    "local nodes see GPUs of the machine that they cannot use": {("local.yml", "nccl_benchmark_backend")},
    "it goes from one role to the next": {
        ("mpijob.yml", "report_results"),
        *(
            ("tasks/benchmark.yml", name)
            for name in ("preflight_launcher", "preflight_program", "report_results", "report_sweep")
        ),
    },
}


def test_no_playbook_hides_a_variable_that_an_inventory_may_set():
    """Variables of a play or a task take precedence over it: what a user sets there would have no effect, and nobody would say so."""
    options = {"gpufabric_environment", *(name for *_where, content in entry_points() for name in content["options"])}
    place = ROOT / "playbooks"
    hidden = {
        (str(path.relative_to(place)), name)
        for path in place.rglob("*.yml")
        for node in tasks_and_plays(yaml.safe_load(path.read_text()))
        # A role of a play may have them beside its name.
        for name in {*(node.get("vars") or {}), *(node if "role" in node else ())} & options
    }
    assert hidden == set().union(*SET_BY_PLAYBOOKS.values())


@pytest.mark.parametrize(
    ("given", "facts", "folder"),
    [
        (None, {"report_path": "/srv/report"}, "/srv/report"),
        # Of a survey.
        ("", {"report_path": "/srv/report"}, "/srv/report"),
        ("/srv/output", {"report_path": "/srv/report"}, "/srv/output"),
        ("/srv/output", {}, "/srv/output"),
        # It stays on the launcher.
        (None, {}, ""),
    ],
)
def test_the_output_of_programs_goes_to_the_report_unless_another_folder_is_set(given, facts, folder):
    (group,) = [
        task["vars"]["nccl_benchmark_group"]
        for task in read_yaml("roles/nccl_benchmark/tasks/run.yml")
        if "nccl_benchmark_group" in task.get("vars", {})
    ]
    variables = {"_nccl_benchmark_plan": {"settings": {"output_dir": given}}, **facts}
    assert jinja2.Environment().from_string(group["output_dir"]).render(variables) == folder


def test_why_a_play_ends_is_one_line():
    """A folded text keeps the end of a line that is indented further, where it is not inside of a template."""
    paths = [path for place in ("roles", "playbooks") for path in (ROOT / place).rglob("*.yml")]
    tasks = [task for path in paths for task in tasks_and_plays(yaml.safe_load(path.read_text()))]
    told = [
        text
        for task in tasks
        for text in (task.get("ansible.builtin.assert", {}).get("fail_msg"), *(task.get("vars") or {}).values())
        if isinstance(text, str) and "allowed" in text
    ]
    assert len(told) > 5
    assert [text for text in told if "\n" in re.sub(r"\{\{.*?\}\}", "", text, flags=re.S)] == []


@pytest.mark.parametrize("module", sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py")))
def test_an_answer_of_a_node_goes_through_the_gate(module):
    """Every module has an action, and that runs no module but by the class whose answers are checked."""
    text = (ROOT / "plugins/action" / f"{module}.py").read_text()
    runs = re.search(r"^if __name__ == .__main__.:", (ROOT / "plugins/modules" / f"{module}.py").read_text(), re.M)
    (base,) = re.findall(r"^class ActionModule\((\w+)\):", text, re.M)
    assert (base in ("NodeAction", "NodeModule")) is bool(runs)
    assert base.startswith("Node") or "_execute_module" not in text
    # And what it shows through the other, which makes one line of it.
    assert not base.startswith("Node") or ".display(" not in text
    answer = {key: [] for key in documentation_of(module, "RETURN")}
    assert told_by_node(answer) == answer
