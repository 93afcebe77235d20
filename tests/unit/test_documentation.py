# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what the README and the guides name exists: variables, metrics, plugins, playbooks, targets of make, links; and whether
their blocks of code are right: YAML has the variables and options that there are, commands those that the tests run."""

from __future__ import annotations

import ast
import importlib.util
import json
import pathlib
import re
import shlex
import textwrap
import typing as t

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI
from ansible_collections.gpufabric.nccl.plugins.module_utils._options import read_value

ROOT = pathlib.Path(__file__).parents[2]
GUIDES = [
    ROOT / "README.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(ROOT.glob("docs/*.md")),
]
ROLE_PAGES = sorted(ROOT.glob("roles/*/README.md"))
PAGES = [*GUIDES, *sorted(ROOT.glob("containers/*/README.md")), ROOT / "tests/testbed/README.md", *ROLE_PAGES]
EXAMPLES = sorted(ROOT.glob("docs/examples/*.yml"))
AWX = sorted(ROOT.glob("examples/awx/*.yml"))
CONTROLLER = ROOT / "examples/awx/controller.yml"
#: What the name of a variable begins with.
PREFIXES = (
    *("worker_pods", "mpijob", "nccl_benchmark", "gpufabric", "key_exchange", "preflight", "isolate", "report"),
    *("local_nodes", "compare", "diagnose", "nccl_tests"),
)
# Not nccl_benchmark_*, and no part of a path.
VARIABLE = re.compile(rf"(?<![\w./-])(?:{'|'.join(PREFIXES)})_\w+(?![\w*/-]|\.(?:py|md|yml))")
#: `worker_pods_node_selector`, `_tolerations`, `_affinity`
SHORTENED = re.compile(r"`(\w+)`((?:(?:,| and)\s`_\w+`)+)")
PLUGIN = re.compile(r"(?<!group/)gpufabric\.nccl\.(\w+)")
ANSIBLE_DOC = re.compile(r"ansible-doc (?:-t (\w+) )?gpufabric\.nccl\.(\w+)")
#: NODES=128 make bench-preflight
MAKE = re.compile(r"^ *((?:\w+=\S+ )*)make ([a-z]+(?:-[a-z]+)*)(?![\w-])(.*)", re.MULTILINE)
LINK = re.compile(r"(?:\]\(|^\[[^\]\n]+\]: )([^)\s]+)", re.MULTILINE)
#: The repository in absolute links.
REPOSITORY = "https://github.com/gpufabric/gpufabric.nccl/blob/main/"
#: Of pictures.
RAW = "https://raw.githubusercontent.com/gpufabric/gpufabric.nccl/main/"
#: A block between fences, with its language.
FENCED = re.compile(r"^ *```(\S*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n(?:\n(?= {4}))?)+")
LANGUAGES = {"console", "text", "yaml"}
#: The tests that run each playbook, from tests/integration.
PLAYED = {
    "bare_metal": "test_sweep.py",
    "compare": "test_compare.py",
    "diagnose": "test_preflight.py",
    "isolate": "test_isolate.py",
    "kubernetes": "kubernetes/pod_runs.py",
    "local": "test_playbooks.py",
    "mpijob": "kubernetes/test_mpijob_with_played_operator.py",
    "nccl_tests": "test_nccl_tests_role.py",
    "teardown": "test_playbooks.py",
}
#: Programs of commands in pages that no test runs as they stand there, and why.
NOT_RUN = {
    "ansible-builder": "no registry is in reach; make build runs its create and introspect",
    "ansible-galaxy": "the collection is not on Galaxy; make build installs the built file",
    "apt-get": "the tests' machines are set up by scripts/install, whose packages these are",
    "curl": "there is no Pushgateway",
    "dnf": "there is no root directory of RHEL",
    "image=nvcr.io/nvidia/pytorch:25.06-py3": "no registry is in reach",
    "eval": "it sets variables of a shell",
    "export": "it sets variables of a shell",
    "install": "there is no node_exporter",
    "kubectl": "the manifests are applied by the tests; the command is that of Kubernetes",
    "oc": "there is no OpenShift",
    "pip": "the tests run in the packages of requirements.lock",
    "python3": "scripts/first-minutes gives it",
    "tests/testbed/kube-down": "the tests end their cluster by scripts/with-cluster",
    "podman": "no registry is in reach; containers/worker/build makes the same image from packages",
    ".venv/bin/antsibull-changelog": "it belongs to a release",
    ".venv/bin/pre-commit": "it changes git's hooks",
}
#: What make runs is a check of its own, or what a check is made of; ansible-doc is run by make build.
RUN = {"ansible-doc", "ansible-playbook", "make"}
#: Of YAML that is no file for Ansible: an alert of Prometheus, a job of GitLab, a container of a pod, a part of a task.
FOREIGN = {"alert", "benchmark", "containers", "when"}
#: How a page calls what it names in backquotes.
KIND = re.compile(r"\b(role|module|filter|playbook|entry point)s? `([a-z]\w*)`")


def show(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def stems(pattern: str) -> set[str]:
    return {path.stem for path in ROOT.glob(pattern)}


ROLES = {path.name for path in ROOT.glob("roles/*")}
KINDS = {
    "role": ROLES,
    "module": stems("plugins/modules/*.py"),
    "filter": stems("plugins/filter/*.yml"),
    "playbook": stems("playbooks/*.yml"),
}


def options() -> dict[str, set[str]]:
    """The options of each entry point of each role, by ROLE.ENTRY_POINT."""
    return {
        f"{path.parts[-3]}.{name}": set(entry_point.get("options", {}))
        for path in ROOT.glob("roles/*/meta/argument_specs.yml")
        for name, entry_point in yaml.safe_load(path.read_text())["argument_specs"].items()
    }


def facts_in(node: t.Any) -> t.Iterator[str]:
    """The names that the tasks in a YAML document register, set as facts, or hand on to the jobs of a workflow."""
    for item in node if isinstance(node, list) else []:
        yield from facts_in(item)
    for key, value in node.items() if isinstance(node, dict) else []:
        if key == "ansible.builtin.set_fact":
            yield from value
        elif key == "ansible.builtin.set_stats":
            yield from value["data"]
        elif key == "register":
            yield value
        else:
            yield from facts_in(value)


def metrics() -> set[str]:
    """The names of the metrics in results.prom."""
    tree = ast.parse((ROOT / "plugins/plugin_utils/_report/openmetrics.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_gauge"]
    arguments = [[getattr(argument, "value", "") for argument in call.args] for call in calls]
    return {"_".join(["gpufabric_nccl", name, *unit]) for name, _text, _labels, *unit in arguments}


@pytest.fixture(scope="module")
def known() -> set[str]:
    """All names that a page may use as those of variables."""
    tasks = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    facts = {name for path in tasks for name in facts_in(yaml.safe_load(path.read_text()))}
    plays = {name for path in ROOT.glob("playbooks/**/*.yml") for name in VARIABLE.findall(without_comments(path))}
    return set().union(*options().values(), *KINDS.values(), facts, plays, metrics())


def without_comments(path: pathlib.Path) -> str:
    return re.sub(r"(?m)(^| )#.*", "", path.read_text())


def lengthened(text: str) -> t.Iterator[set[str]]:
    """For each shortened name, such as `_tolerations`, the names that it may stand for."""
    for first, rest in SHORTENED.findall(text):
        parts = first.split("_")
        for name in re.findall(r"`(_\w+)`", rest):
            yield {"_".join(parts[:count]) + name for count in range(1, len(parts))}


def code_in(text: str) -> str:
    """What a page shows as code: in backquotes, or between fences."""
    return "\n".join(
        [
            *re.findall(r"`([^`\n]+)`", text),
            *re.findall(r"^ *```.*?^ *```", text, re.MULTILINE | re.DOTALL),
        ]
    )


def anchors_of(path: pathlib.Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them, and those that are set by hand."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


class Block(t.NamedTuple):
    """A block of code in a page. ``language``: that of its fence."""

    language: str
    text: str


def blocks_of(page: pathlib.Path) -> list[Block]:
    """The blocks of code."""
    return [Block(language, textwrap.dedent(inner)) for language, inner in FENCED.findall(page.read_text())]


def commands_in(text: str) -> list[list[str]]:
    """The words of each command, without variables before it."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.strip() and not line.startswith(" ")]
    found = []
    for words in commands:
        while len(words) > 1 and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        found.append(words)
    return [words for words in found if words]


def options_of_modules(node: t.Any) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """The modules of this collection that YAML calls, with what it gives them."""
    for item in node if isinstance(node, list) else node.values() if isinstance(node, dict) else []:
        yield from options_of_modules(item)
    for key, value in node.items() if isinstance(node, dict) else []:
        if isinstance(key, str) and key.startswith("gpufabric.nccl.") and isinstance(value, dict):
            yield key.rpartition(".")[2], value


def documented_options(module: str) -> set[str]:
    text = (ROOT / "plugins/modules" / f"{module}.py").read_text()
    return set(yaml.safe_load(re.search(r'^DOCUMENTATION = r?"""(.*?)"""', text, re.M | re.DOTALL)[1])["options"])


@pytest.mark.parametrize("page", PAGES, ids=show)
def test_code_is_between_fences_with_a_language(page):
    assert {block.language for block in blocks_of(page)} - LANGUAGES == set()
    # No other test sees code that is indented.
    assert INDENTED.findall(FENCED.sub("", page.read_text())) == []


@pytest.mark.parametrize("page", PAGES, ids=show)
def test_yaml_in_pages_is_right(page, known):
    for block in blocks_of(page):
        if block.language != "yaml":
            continue
        content = yaml.safe_load(block.text)
        assert isinstance(content, (dict, list)), block.text
        for module, given in options_of_modules(content):
            assert given.keys() - documented_options(module) == set(), block.text
        for item in [content] if isinstance(content, dict) else content:
            names = set(item) - {"name"}
            inventory = all(isinstance(value, dict) and {"hosts", "vars"} & value.keys() for value in item.values())
            play = {"hosts", "tasks", "roles"} & names or any("." in name for name in names)
            rules = names <= {"rules"}
            assert inventory or play or rules or names & FOREIGN or names <= known, block.text


@pytest.mark.parametrize("page", PAGES, ids=show)
def test_commands_in_pages_are_right(page, known):
    parser = PlaybookCLI(["ansible-playbook"])
    parser.init_parser()
    for block in blocks_of(page):
        for words in commands_in(block.text) if block.language == "console" else []:
            assert words[0] in RUN or words[0] in NOT_RUN, words
            if words[0] != "ansible-playbook":
                continue
            given = parser.parser.parse_args(words[1:])
            (playbook,) = given.args
            # One that the page shows below the command, and one that sets up an AWX.
            if (page.name, playbook) in {("diagnose.md", "reach.yml"), ("awx.md", "controller.yml")}:
                continue
            assert playbook.rpartition(".")[0] == "gpufabric.nccl" and playbook.rpartition(".")[2] in PLAYED, words
            for extra in given.extra_vars:
                if extra.startswith("{"):
                    assert json.loads(extra).keys() - known == set(), words
                elif not extra.startswith("@"):
                    names = {word.partition("=")[0] for word in shlex.split(extra)}
                    assert names - known - {"ansible_pipelining"} == set(), words


def test_the_table_of_variables_has_their_defaults_and_the_playbooks_that_take_them():
    rows = {}
    page = (ROOT / "docs" / "variables.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\| `.*$", page, re.MULTILINE):
        name, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        rows[name.strip(" `")] = cells
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        options = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
        for name in (name for name in options if name.startswith(path.parts[-3]) and "default" in options[name]):
            assert rows[name][0], f"{name} has a default"
    takers = {name: re.findall(r"`(\w+)`", cells[-1]) for name, cells in rows.items()}
    # A search has a collective and limits of its own, and takes what the launches of both have in common.
    assert "isolate" in takers["nccl_benchmark_env"] and "isolate" in takers["nccl_benchmark_silence_timeout"]
    assert "isolate" not in takers["nccl_benchmark_collectives"] + takers["nccl_benchmark_timeout"]
    assert takers["preflight_report_dir"] == ["diagnose"] and "diagnose" not in takers["report_thresholds"]
    assert takers["local_nodes_count"] == ["local"] and "nccl_tests" in takers["key_exchange_port"]


def test_each_playbook_is_run_by_the_tests():
    assert PLAYED.keys() == KINDS["playbook"]
    for playbook, name in PLAYED.items():
        assert f"gpufabric.nccl.{playbook}" in (ROOT / "tests/integration" / name).read_text(), playbook


def test_packages_in_pages_are_those_that_the_collection_needs():
    needed = (ROOT / "meta/ee-requirements.txt").read_text() + (ROOT / "scripts/install").read_text()
    for page in PAGES:
        for block in blocks_of(page):
            for words in commands_in(block.text) if block.language == "console" else []:
                if words[:2] in (["pip", "install"], ["apt-get", "install"]):
                    packages = set(words[2:]) - {"ansible-core", "python3"}
                    assert {one for one in packages if one not in needed} == set(), words


def test_examples_for_ci_install_what_local_nodes_need():
    texts = [(ROOT / "docs/examples/ci" / name).read_text() for name in ("github.yml", "gitlab.yml")]
    wanted = (ROOT / "scripts/install").read_text()
    packages = [set(" ".join(re.findall(r"apt-get install --yes (.*)", text)).split()) for text in texts]
    assert packages[0] == packages[1] and not {one for one in packages[0] if one not in wanted}
    # With ansible-core alone: containers.podman is no dependency of the collection.
    check = yaml.safe_load((ROOT / "roles/local_nodes/tasks/main.yml").read_text())[0]["gpufabric.nccl.check_variables"]
    for text in texts:
        (words,) = re.findall(r"ansible-galaxy collection install (.*)", text)
        assert {"gpufabric.nccl", *check["collections"]} <= set(shlex.split(words)), words


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES, *AWX], ids=show)
def test_variables_exist(page, known):
    assert set(VARIABLE.findall(page.read_text())) - known == set()


@pytest.mark.parametrize("page", PAGES, ids=show)
def test_shortened_variables_exist(page, known):
    assert [sorted(names) for names in lengthened(page.read_text()) if not names & known] == []


@pytest.mark.parametrize("page", EXAMPLES, ids=show)
def test_examples_set_options(page):
    assert set(yaml.safe_load(page.read_text())) - set().union(*options().values()) == set()


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES, *AWX], ids=show)
def test_plugins_and_playbooks_exist(page):
    text = page.read_text()
    assert set(PLUGIN.findall(text)) - set().union(*KINDS.values()) == set()
    assert {(kind, name) for kind, name in KIND.findall(text) if name not in KINDS.get(kind, {name})} == set()
    assert {(kind, name) for kind, name in ANSIBLE_DOC.findall(text) if name not in KINDS[kind or "module"]} == set()


def modules_of_awx() -> pathlib.Path:
    """The modules of awx.awx; skips the test if the collection did not come with the Python package ansible."""
    ansible = importlib.util.find_spec("ansible")
    place = pathlib.Path(ansible.origin).parents[1] / "ansible_collections/awx/awx/plugins/modules" if ansible else None
    if place is None or not place.exists():
        pytest.skip("the collection awx.awx is not installed")
    return place


#: What YAML makes of the types of options; what is a template may be anything.
AWX_TYPES = {"str": (str,), "bool": (bool,), "int": (int,), "dict": (dict,), "list": (list,)}


def wrong_arguments(options: dict[str, t.Any], given: dict[str, t.Any], name: str) -> t.Iterator[str]:
    """What is wrong with the arguments of a module, by its documentation."""
    yield from (
        f"{name} lacks {option}" for option, one in options.items() if one.get("required") and option not in given
    )
    for option, value in given.items():
        spec = options.get(option)
        if spec is None:
            yield f"{name} has no {option}"
        elif not (isinstance(value, str) and "{{" in value):
            if not isinstance(value, AWX_TYPES[spec["type"]]) or value not in spec.get("choices", [value]):
                yield f"{name}: {option}: {value}"
            nested = spec.get("suboptions")
            for entry in (value if isinstance(value, list) else [value]) if nested else ():
                yield from wrong_arguments(nested, entry, f"{name}.{option}")


def awx_calls() -> list[tuple[str, dict[str, t.Any]]]:
    """The modules of awx.awx that the example calls, with their arguments."""
    (play,) = yaml.safe_load(CONTROLLER.read_text())
    return [(name, task[name]) for task in play["tasks"] for name in task if name.startswith("awx.awx.")]


def test_awx_is_set_up_with_options_that_there_are():
    modules = modules_of_awx()
    (play,) = yaml.safe_load(CONTROLLER.read_text())
    calls = awx_calls()
    assert len(calls) == len(play["tasks"]) == 17
    wrong = []
    for name, arguments in calls:
        text = (modules / f"{name.rpartition('.')[2]}.py").read_text()
        options = yaml.safe_load(re.search(r"^DOCUMENTATION = '''(.*?)'''", text, re.M | re.DOTALL)[1])["options"]
        wrong += wrong_arguments(options, arguments, name)
    assert wrong == []


def test_each_job_of_awx_has_its_playbook():
    templates: dict[str, str] = {}
    for name, arguments in awx_calls():
        if name == "awx.awx.job_template":
            for item in (
                ["bare_metal", "isolate", "diagnose", "teardown"] if "{{ item }}" in arguments["name"] else [""]
            ):
                named = {key: arguments[key].replace("{{ item }}", item) for key in ("name", "playbook")}
                templates[named["name"]] = named["playbook"]
    playbooks = {path.name: yaml.safe_load(path.read_text()) for path in AWX}
    assert set(templates.values()) | {"controller.yml"} == playbooks.keys()
    (workflow,) = (arguments for name, arguments in awx_calls() if name.endswith("workflow_job_template"))
    nodes = {node["identifier"]: node for node in workflow["workflow_nodes"]}
    assert {node["unified_job_template"]["name"] for node in nodes.values()} <= templates.keys()
    followed = [
        entry["identifier"] for node in nodes.values() for some in node.get("related", {}).values() for entry in some
    ]
    assert set(followed) == nodes.keys() - {"benchmark"}
    # AWX runs slices in a workflow of this name.
    assert workflow["name"] not in templates
    imports = {name: plays[0]["import_playbook"] for name, plays in playbooks.items() if "import_playbook" in plays[0]}
    assert imports == {
        name: f"gpufabric.nccl.{name[:-4]}" for name in playbooks.keys() - {"controller.yml", "report.yml"}
    }


def test_surveys_of_awx_ask_for_variables_that_there_are():
    specs = {}
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        specs.update(yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"])
    questions = [
        question for _name, arguments in awx_calls() for question in arguments.get("survey_spec", {}).get("spec", [])
    ]
    assert len(questions) == 9
    for question in questions:
        spec = specs[question["variable"]]
        assert {"int": "integer"}.get(spec["type"], question["type"]) == question["type"], question
        assert set(question.get("choices", [])) <= set(spec.get("choices", [])), question
        # What depends on the machines is left to the play.
        assert "default" not in question or spec.get("default") is not None, question
        # As AWX gives it.
        if "default" in question:
            read_value(question["variable"], spec, question["default"])


@pytest.mark.parametrize("page", PAGES, ids=show)
def test_entry_points_exist(page):
    text = page.read_text()
    names = {
        *re.findall(r"tasks_from: (\w+)", text),
        *(name for kind, name in KIND.findall(text) if kind == "entry point"),
    }
    assert names - {entry_point.split(".")[1] for entry_point in options()} == set()


@pytest.mark.parametrize("page", PAGES, ids=show)
def test_targets_and_variables_of_make_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    found = MAKE.findall(code_in(page.read_text()))
    targets = set(re.findall(r"^([a-z]+(?:-[a-z]+)*):.*## ", makefile, re.MULTILINE))
    assert {target for _before, target, _after in found} - targets == set()
    variables = {name for before, _target, after in found for name in re.findall(r"\b[A-Z]+(?==)", before + after)}
    assert {name for name in variables if not re.search(rf"\b{name}\b", makefile)} == set()


@pytest.mark.parametrize("page", PAGES, ids=show)
def test_links_lead_somewhere(page):
    for link in set(LINK.findall(page.read_text())):
        if "://" in link and not link.startswith(REPOSITORY):
            continue
        name, _hash, anchor = link.partition("#")
        own = ROOT / name[len(REPOSITORY) :] if name.startswith(REPOSITORY) else page.parent / name
        target = own.resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_links_of_the_readme_work_on_galaxy():
    """Galaxy shows the README without the repository around it."""
    text = (ROOT / "README.md").read_text()
    assert [link for link in LINK.findall(text) if "://" not in link] == []
    pictures = [link.removeprefix(RAW) for link in LINK.findall(text) if link.startswith(RAW)]
    assert len(pictures) == 2 and all((ROOT / picture).exists() for picture in pictures)
    assert len(text.splitlines()) <= 150
    assert set(re.findall(r"\]\[([^\]]+)\]", text)) == set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))


def test_readme_has_the_commands_that_first_minutes_gives():
    """scripts/first-minutes runs the code block of README.md with this line."""
    text = (ROOT / "README.md").read_text()
    (wanted,) = re.findall(r'commands_with "(.+)"', (ROOT / "scripts/first-minutes").read_text())
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [block for block in blocks if wanted in block.splitlines()]


def test_the_readme_and_the_site_say_the_same_of_what_is_tested():
    tables = [
        re.search(r"^## Tested with\n\n((?:\|.*\n)+)", (ROOT / page).read_text(), re.MULTILINE)[1]
        for page in ("README.md", "docs/project.md")
    ]
    assert len({re.sub(r"\](?:\[[^]]*\]|\([^)]*\))", "]", table) for table in tables}) == 1


@pytest.mark.parametrize("role", sorted(ROLES))
def test_each_role_has_a_page_for_galaxy(role):
    text = (ROOT / "roles" / role / "README.md").read_text()
    specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text())["argument_specs"]
    assert text.startswith(f"# The role gpufabric.nccl.{role}\n\n{specs['main']['short_description']}. ")
    assert set(ANSIBLE_DOC.findall(text)) == {("role", role)}
    assert [link for link in LINK.findall(text) if not link.startswith(REPOSITORY)] == []


def test_links_of_the_documentation_of_plugins_lead_somewhere():
    pattern = re.compile(rf"L\([^,]+,{re.escape(REPOSITORY)}([^)#]+)\)")
    files = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("plugins/**/*.yml"), *ROOT.glob("roles/*/meta/*.yml")]
    found = {name for path in files for name in pattern.findall(path.read_text())}
    assert len(found) > 2
    assert [name for name in found if not (ROOT / name).exists()] == []


def test_readme_lists_all_parts_for_users():
    rows = dict(
        re.findall(r"^\| (Playbooks|Roles|Modules) \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    )
    named = {heading: set(re.findall(r"`(\w+)`", row)) for heading, row in rows.items()}
    internal = {
        path.stem
        for path in ROOT.glob("plugins/modules/*.py")
        if re.search("Only a task of .* can call it", path.read_text())
    }
    assert named == {"Playbooks": KINDS["playbook"], "Roles": ROLES, "Modules": KINDS["module"] - internal}
