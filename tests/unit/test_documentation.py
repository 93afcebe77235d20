# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what the README and the guides name exists: variables, metrics, plugins, playbooks, targets of make, links."""

from __future__ import annotations

import ast
import importlib.util
import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
GUIDES = [ROOT / "README.md", ROOT / "CODE_OF_CONDUCT.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
ROLE_PAGES = sorted(ROOT.glob("roles/*/README.md"))
PAGES = [*GUIDES, *sorted(ROOT.glob("containers/*/README.md")), ROOT / "tests/testbed/README.md", *ROLE_PAGES]
EXAMPLES = sorted(ROOT.glob("docs/examples/*.yml"))
AWX = sorted(ROOT.glob("docs/examples/awx/*.yml"))
#: What the name of a variable begins with.
PREFIXES = (
    *("worker_pods", "mpijob", "nccl_benchmark", "gpufabric", "key_exchange", "preflight", "isolate", "report"),
    *("local_nodes", "compare", "diagnose", "nccl_tests"),
)
# Not nccl_benchmark_*, and no part of a path.
VARIABLE = re.compile(rf"(?<![\w./-])(?:{'|'.join(PREFIXES)})_\w+(?![\w*/-]|\.(?:py|md|yml))")
#: `worker_pods_node_selector`, `_tolerations`, `_affinity`
SHORTENED = re.compile(r"`(\w+)`((?:(?:,| and)\s`_\w+`)+)")
PLUGIN = re.compile(r"gpufabric\.nccl\.(\w+)")
ANSIBLE_DOC = re.compile(r"ansible-doc (?:-t (\w+) )?gpufabric\.nccl\.(\w+)")
#: NODES=128 make bench-preflight
MAKE = re.compile(r"^ *((?:\w+=\S+ )*)make ([a-z]+(?:-[a-z]+)*)(?![\w-])(.*)", re.MULTILINE)
LINK = re.compile(r"(?:\]\(|^\[[^\]\n]+\]: )([^)\s]+)", re.MULTILINE)
#: The repository in absolute links.
REPOSITORY = "https://github.com/gpufabric/gpufabric.nccl/blob/main/"
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
    """What a page shows as code: in backquotes, between fences, or indented by four spaces."""
    return "\n".join(
        [
            *re.findall(r"`([^`\n]+)`", text),
            *re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL),
            *re.findall(r"^    .*", text, re.MULTILINE),
        ]
    )


def anchors_of(path: pathlib.Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them, and those that are set by hand."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


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


def test_awx_is_set_up_with_options_that_there_are():
    modules = modules_of_awx()
    (play,) = yaml.safe_load((ROOT / "docs/examples/awx/controller.yml").read_text())
    calls = [(name, task[name]) for task in play["tasks"] for name in task if name.startswith("awx.awx.")]
    assert len(calls) == 4
    for name, arguments in calls:
        text = (modules / f"{name.rpartition('.')[2]}.py").read_text()
        options = yaml.safe_load(re.search(r"^DOCUMENTATION = '''(.*?)'''", text, re.M | re.DOTALL)[1])["options"]
        given = {**play["module_defaults"]["group/awx.awx.controller"], **arguments}
        assert given.keys() - options.keys() == set(), name
        assert {option for option, value in options.items() if value.get("required")} - given.keys() == set(), name
        for option, value in given.items():
            nested = options[option].get("suboptions", {})
            entries = value if isinstance(value, list) and nested else []
            assert {key for entry in entries for key in entry} - nested.keys() == set(), (name, option)


def test_each_job_of_awx_has_its_playbook():
    (play,) = yaml.safe_load((ROOT / "docs/examples/awx/controller.yml").read_text())
    templates, workflow = play["tasks"][2:]
    names = {f"NCCL {playbook}" for playbook in templates["loop"]}
    nodes = workflow["awx.awx.workflow_job_template"]["workflow_nodes"]
    assert {node["unified_job_template"]["name"] for node in nodes} <= names
    imports = {path.stem: yaml.safe_load(path.read_text())[0] for path in AWX if path.stem != "controller"}
    assert set(templates["loop"]) <= imports.keys()
    assert {name: play["import_playbook"] for name, play in imports.items()} == {
        name: f"gpufabric.nccl.{name}" for name in imports
    }


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
    assert set(re.findall(r"\]\[([^\]]+)\]", text)) == set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))


def test_readme_has_the_commands_that_first_minutes_gives():
    """scripts/first-minutes runs the code block of README.md with this line."""
    text = (ROOT / "README.md").read_text()
    (wanted,) = re.findall(r'commands_with "(.+)"', (ROOT / "scripts/first-minutes").read_text())
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [block for block in blocks if wanted in block.splitlines()]


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
