# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/nccl-warnings: what it finds in a source, and that the kept list of texts is true."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "nccl-warnings"
SOURCE = r"""
#define WARN(...) ncclDebugLog(NCCL_LOG_WARN, __VA_ARGS__)
#define CHECK(call, name) if (call) { \
    WARN("Call to " name " failed with error %s", strerror(errno)); \
  }
// WARN("in a comment");
/* WARN("in another
comment"); */
void f() {
  WARN("NET/Socket : no interface found");
  INFO(NCCL_INIT, "nothing"); NOWARN(x, 1);
  WARN("The gizmo %s is \"%5.2f\" of %" PRIu64 " by "
       "%p, %%: \
line 2\n", a("),(", ','), b, c);
  WARN("Got async event : %s(%d)", s, 1);
  WARN(msg);
}
"""


@pytest.fixture(scope="module")
def script():
    loader = importlib.machinery.SourceFileLoader("scripts_nccl_warnings", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scripts_nccl_warnings", loader))
    sys.modules["scripts_nccl_warnings"] = module
    loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src" / "misc").mkdir(parents=True)
    (tmp_path / "src" / "misc" / "x.cc").write_text(SOURCE)
    (tmp_path / "src" / "misc" / "x.md").write_text('WARN("in a text");')
    (tmp_path / "makefiles").mkdir()
    (tmp_path / "makefiles" / "version.mk").write_text("NCCL_MAJOR := 2\nNCCL_MINOR := 40\nNCCL_PATCH   := 1\n")
    return tmp_path


def run(script, monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["nccl-warnings", *map(str, arguments)])
    assert script.main() == 0
    return capsys.readouterr().out


def test_texts_of_a_source(script):
    found = [(item.line, script.key_of(item.text)) for item in script.warnings_in(SOURCE, "src/x.cc")]
    assert found == [
        (4, "Call to %s failed with error %s"),
        (10, "NET/Socket : no interface found"),
        (12, 'The gizmo %s is "%d" of %d by %d, %: line 2'),
        (15, "Got async event : %s(%d)"),
        (16, "%s"),
    ]


def test_known_and_unknown_texts(script, tree, monkeypatch, capsys):
    text = run(script, monkeypatch, capsys, tree)
    assert text.startswith(
        "NCCL 2.40.1: 5 warnings, 5 texts\n2 texts have a cause, 1 of these for some of their values:\n"
    )
    assert "  nccl-interface-missing\n    NET/Socket : no interface found\n" in text
    assert "(of some values)\n    Call to %s failed with error %s\n" in text
    assert text.endswith(
        "3 texts are unknown:\n  src/misc/x.cc: 3\n"
        '    12: The gizmo %s is "%d" of %d by %d, %: line 2\n    15: Got async event : %s(%d)\n    16: %s\n'
    )


def test_only_new_texts_are_told_beside_a_kept_list(script, tree, tmp_path, monkeypatch, capsys):
    kept = tmp_path / "kept"
    kept.write_text("# It is a gizmo.\n\nGot async event : %s(%d)\n%s\n")
    text = run(script, monkeypatch, capsys, tree, "--check", kept)
    assert "2 more need none: " in text and "1 texts are unknown:\n  src/misc/x.cc: 1\n    12: The gizmo" in text
    text = run(script, monkeypatch, capsys, tree, "--check", kept, "--new")
    assert text == '# src/misc/x.cc\nThe gizmo %s is "%d" of %d by %d, %: line 2\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tree}/src"], "SOURCE_DIR {tree}/src has no src/ with WARN() in it"),
        (["{tree}", "--check", "{tree}/none"], "--check {tree}/none cannot be read: No such file or directory"),
    ],
)
def test_bad_input(script, tree, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["nccl-warnings", *(each.format(tree=tree) for each in arguments)])
    with pytest.raises(SystemExit) as error:
        script.main()
    assert error.value.code == 2 and message.format(tree=tree) in capsys.readouterr().err


def test_the_kept_list_has_no_text_that_is_known(script):
    """A text that got a cause leaves the list."""
    lines = script.DECIDED.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line and not line.startswith("#")]
    assert len(texts) == len(set(texts)) > 500 and [script.key_of(text) for text in texts] == texts
    catalogue = script.Catalogue()
    assert [text for text in texts if catalogue.known(script.Warning_(text, "src/x.cc", 1))] == []
