# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""A sweep: which points it has, in what order they are run, how long that takes.

A sweep is a dict of lists, its factors; every combination of their values, the levels, is a setting, and each setting is
run ``repeats`` times: these are the points.
"""

from __future__ import annotations

import collections
import hashlib
import heapq
import itertools
import json
import math
import re
import statistics
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._benchmark.plan import (
    COLLECTIVES,
    MOST_RANKS,
    further_arguments,
    options_in,
)
from ansible_collections.gpufabric.nccl.plugins.module_utils._errors import OptionError
from ansible_collections.gpufabric.nccl.plugins.module_utils._units import parse_size, size_word

#: Those that reduce, and so have an operation; the programs of the others take none.
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
#: As the programs' option -d knows them. A name that it does not know is taken for float, without an error.
DATATYPES = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"),
    *("fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"),
)
OPERATIONS = ("sum", "prod", "min", "max", "avg")

#: Of all combinations, before conditions: more cannot be run, and would only fill memory.
MOST_COMBINATIONS = 100_000

_SIZES = {"min": "8", "max": "128M", "factor": 2}
_DEFAULTS: dict[str, t.Any] = {
    "collectives": ["all_reduce"],
    "datatypes": ["float"],
    "operations": ["sum"],
    "sizes": _SIZES,
    "ranks_per_node": None,
    "env": {},
    "repeats": 3,
    "default": True,
    "exclude": [],
    "only": [],
}
#: Options of a program that each point has, as the beginnings by which a program knows them.
_OF_POINTS = re.compile(r"(?P<sizes>[bef]|mi\w*|ma\w*|stepf\w*)|(?P<datatypes>d|da\w*)|(?P<operations>o|op\w*)")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*\Z")

Point = t.Mapping[str, t.Any]
_Kind = t.Tuple[str, int, int, int]


class _Setting(t.NamedTuple):
    """What the repeats of a point have in common. ``env``: of the variables that are set, in the order of their names."""

    collective: str
    datatype: str
    operation: str | None
    min_bytes: int
    max_bytes: int
    step_factor: int
    ranks_per_node: int | None
    env: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The same for the same setting in any sweep: a variable that is not set is no part of it."""
        text = json.dumps(self._asdict(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.collective}-{size_word(self.min_bytes)}-{size_word(self.max_bytes)}-{digest}"

    def level(self, factor: str) -> t.Any:
        """The value of a setting by its name, or of a variable; None where that is not set."""
        return getattr(self, factor) if factor in self._fields else dict(self.env).get(factor)


def sweep_points(
    sweep: t.Mapping[str, t.Any], option: str = "sweep", own_defaults: t.Mapping[str, t.Any] | None = None
) -> list[dict[str, t.Any]]:
    """The points of a sweep, in the order in which they are to be run.

    ``sweep``, all keys optional: ``collectives``, ``datatypes``, ``operations`` (of those collectives that reduce),
    ``sizes`` (one or several of ``min``, ``max``, ``factor``, each a run of its own), ``ranks_per_node`` (None: as many as
    there are slots), ``env`` (variables, each with its values; None: not set), ``repeats``, ``default`` (whether the
    setting without any variable is added where it is missing), ``exclude`` and ``only``. A single value may stand for a
    list of one.

    A condition is a dict, of names of settings or variables and the value or values that it matches; it matches where
    all of its items do. A setting is left out where any of ``exclude`` matches, or none of ``only`` where there are some.
    The default that is added is not subject to conditions on variables: without it no gain can be told.

    Each point has ``id``, ``setting`` (the id without the repeat), ``name`` for people, ``collective``, ``options``
    (``min_bytes``, ``max_bytes``, ``step_factor``, ``datatype``, ``operation``), ``env``, ``ranks_per_node`` and ``repeat``
    from 1. The id says nothing of what is the same for the whole sweep, such as the number of iterations.

    The order makes a sweep that is cut off useful. All settings come once before any comes again. Within that, first the
    few that together have every level of every factor, so that what cannot work at all, and the pace of each collective
    and size, show early. Then those that set the fewest variables, for all collectives and sizes: all defaults, then all
    changes of one variable, then their combinations. Later repeats come in an order that is as good as random, but
    always the same, so that a drift of the machines with time is not taken for an effect of a setting.

    ``option``: what to call the sweep in errors. ``own_defaults``: of keys that the sweep, or a range of its sizes, does not have, in place
    of those of a sweep. Raises OptionError.
    """
    if not isinstance(sweep, t.Mapping):
        raise OptionError(option, sweep, f"a dict with any of the keys {', '.join(_DEFAULTS)}")
    unknown = [name for name in sweep if name not in _DEFAULTS]
    if unknown:
        raise OptionError(f"{option}.{unknown[0]}", sweep[unknown[0]], f"one of the keys {', '.join(_DEFAULTS)}")
    defaults = {**_DEFAULTS, **(own_defaults or {})}
    values = {**defaults, **sweep}
    values["sizes"] = [
        {**defaults["sizes"], **item} if isinstance(item, t.Mapping) else item
        for item in _listed(f"{option}.sizes", values["sizes"])
    ]
    repeats = _integer(f"{option}.repeats", values["repeats"], 1)
    if not isinstance(values["default"], bool):
        raise OptionError(f"{option}.default", values["default"], "true or false")
    settings = _combinations(values, option)
    left = _filtered(settings, values, option)
    if values["default"]:
        left = list(dict.fromkeys(item for setting in left for item in (setting._replace(env=()), setting)))
    if not left:
        name = "only" if values["only"] else "exclude"
        raise OptionError(f"{option}.{name}", values[name], "conditions that leave a point")
    if len(left) * repeats > MOST_COMBINATIONS:
        allowed = f"at most {MOST_COMBINATIONS // len(left)}, since there are {len(left)} points, and at most {MOST_COMBINATIONS} with all repeats"
        raise OptionError(f"{option}.repeats", repeats, allowed)
    factors = _factors(left)
    first = [(setting, 1) for setting in _ordered(left, factors)]
    later = []
    for repeat in range(2, repeats + 1):
        again = [(setting, repeat) for setting in left]
        later += sorted(again, key=lambda item: hashlib.sha256(_id(*item).encode()).digest())
    # That there is no operation follows from the collective.
    varying = {name for name, levels in factors.items() if len(levels - ({None} if name == "operation" else set())) > 1}
    return [_point(setting, repeat, repeats, varying) for setting, repeat in [*first, *later]]


def with_sweep(settings: t.Mapping[str, t.Any], node_env: t.Collection[str] = ()) -> dict[str, t.Any]:
    """The settings of the role nccl_benchmark with the points of its ``sweep`` as ``sweep_points``, empty where there is none.

    What the sweep does not list is as the role's variables say. ``node_env``: the variables that nodes set themselves, which
    no point could leave out. Raises OptionError.
    """
    option, sweep = "nccl_benchmark_sweep", settings.get("sweep") or {}
    if not sweep:
        return {**settings, "sweep_points": []}
    if not isinstance(sweep, t.Mapping):
        raise OptionError(option, sweep, "a dict; on the command line -e @FILE, or -e with JSON")
    sizes = {"min": settings["min_bytes"], "max": settings["max_bytes"], "factor": settings["step_factor"]}
    own = {"collectives": settings["collectives"], "sizes": sizes, "ranks_per_node": settings["ranks_per_node"]}
    points = sweep_points(sweep, option, own)
    ranks = {point["ranks_per_node"] for point in points}
    if None in ranks and len(ranks) > 1:
        # There are as many slots as the point with the most ranks needs.
        raise OptionError(f"{option}.ranks_per_node", sweep["ranks_per_node"], "numbers, or null alone")
    many = [number for number in ranks if number is not None and number > MOST_RANKS]
    if many:
        raise OptionError(f"{option}.ranks_per_node", many[0], f"1 to {MOST_RANKS}")
    both = [name for name in sweep.get("env") or {} if name in settings["env"]]
    if both:
        raise OptionError("nccl_benchmark_env", both, f"variables that {option}.env does not have")
    of_nodes = [name for name in sweep.get("env") or {} if name in node_env]
    if of_nodes:
        raise OptionError(f"{option}.env", of_nodes, "variables that gpufabric_node_env does not have for any worker")
    for name, value in options_in(further_arguments(settings)):
        of_points = _OF_POINTS.fullmatch(name)
        if of_points:
            # The last of two holds: all points would run with it, and the results would say otherwise.
            allowed = f"options other than those of {option}.{of_points.lastgroup}"
            dashes = "-" if len(name) == 1 else "--"
            raise OptionError("nccl_benchmark_extra_args", f"{dashes}{name} {value}", allowed)
    return {
        **settings,
        "collectives": list(dict.fromkeys(point["collective"] for point in points)),
        "sweep_points": points,
    }


def points_table(points: t.Sequence[Point], most: int = 50) -> str:
    """The points in the order in which they are run, each with its id and what it sets, as text for a terminal."""
    shown = points[:most]
    width = max((len(point["id"]) for point in shown), default=0)
    lines = [f"{point['id']:<{width}}  {point['name']}" for point in shown]
    left = len(points) - len(shown)
    return "\n".join([*lines, *([f"and {left} more"] if left else [])])


def estimate(points: t.Sequence[Point], durations: t.Mapping[str, float]) -> dict[str, t.Any]:
    """How long the points take that are left, from how long those took that are over.

    ``durations``: seconds by id, however the point ended. Returned are ``points`` in all, ``left``, ``guessed`` (of these,
    those of a collective and size of which none is over: the other collectives' pace at this size stands for theirs, or
    that of all points where there is none), ``seconds``, None where nothing is over, and ``uncertainty_s``, None where it
    cannot be told: two standard deviations of the total, from the scatter of the points and the error of their mean.
    """
    pace = _Pace(points, durations)
    left = [point for point in points if point["id"] not in durations]
    seconds, uncertainty, known = pace.total(collections.Counter(_kind(point) for point in left))
    return {
        "points": len(points),
        "left": len(left),
        "guessed": sum(_kind(point) not in pace.seen for point in left),
        "seconds": round(seconds, 3) if pace.seen else None,
        "uncertainty_s": round(uncertainty, 3) if pace.seen and known else None,
    }


class _Pace:
    """Seconds of a point by its kind, a collective and a range of sizes, as far as points are over."""

    def __init__(self, points: t.Sequence[Point], durations: t.Mapping[str, float]) -> None:
        self.seen: dict[_Kind, list[float]] = {}
        for point in points:
            if point["id"] in durations:
                self.seen.setdefault(_kind(point), []).append(durations[point["id"]])
        self._means = {kind: statistics.mean(found) for kind, found in self.seen.items()}
        # Relative, so that what is known of one kind serves for another of which a single point is over.
        deviations = [
            (value / self._means[kind] - 1) ** 2
            for kind, found in self.seen.items()
            for value in found
            if self._means[kind] > 0
        ]
        freedom = len(deviations) - sum(mean > 0 for mean in self._means.values())
        self._scatter = math.sqrt(sum(deviations) / freedom) if freedom > 0 else None

    def total(self, numbers: t.Mapping[_Kind, int]) -> tuple[float, float, bool]:
        """Seconds of so many points of each kind, two standard deviations of that as far as known, and whether it all is."""
        seconds, variance, known = 0.0, 0.0, True
        for kind, number in numbers.items() if self.seen else ():
            mean, error = self._mean(kind)
            seconds += number * mean
            if error is None or self._scatter is None:
                known = False
            else:
                # What the mean is wrong by, all points of the kind are.
                variance += number * (self._scatter * mean) ** 2 + (number * error) ** 2
        return seconds, 2 * math.sqrt(variance), known

    def _mean(self, kind: _Kind) -> tuple[float, float | None]:
        """Seconds of a point of the kind, and the standard deviation of that mean."""
        if kind in self.seen:
            mean = self._means[kind]
            return mean, None if self._scatter is None else self._scatter * mean / math.sqrt(len(self.seen[kind]))
        alike = [mean for other, mean in self._means.items() if other[1:] == kind[1:]]
        others = alike or list(self._means.values())
        # Of a size that was never run, nothing says how wrong a guess from other sizes is.
        known = len(alike) > 1
        return statistics.mean(others), statistics.stdev(alike) * math.sqrt(1 + 1 / len(alike)) if known else None


def _kind(point: Point) -> _Kind:
    options = point["options"]
    return point["collective"], options["min_bytes"], options["max_bytes"], options["step_factor"]


def _combinations(values: t.Mapping[str, t.Any], option: str) -> list[_Setting]:
    lists: list[list[t.Any]] = [
        _choices(f"{option}.collectives", values["collectives"], COLLECTIVES),
        _choices(f"{option}.datatypes", values["datatypes"], DATATYPES),
        _choices(f"{option}.operations", values["operations"], OPERATIONS),
        [_sizes(f"{option}.sizes", item) for item in values["sizes"]],
        [
            None if item is None else _integer(f"{option}.ranks_per_node", item, 1)
            for item in _listed(f"{option}.ranks_per_node", values["ranks_per_node"])
        ],
    ]
    variables = _variables(f"{option}.env", values["env"])
    every = [*lists, *variables.values()]
    count = 1
    for levels in every:
        count *= len(levels)
    if count > MOST_COMBINATIONS:
        numbers = " x ".join(str(len(levels)) for levels in every if len(levels) > 1)
        raise OptionError(option, numbers, f"at most {MOST_COMBINATIONS} combinations")
    settings = []
    for collective, datatype, operation, (smallest, largest, factor), ranks, *levels in itertools.product(*every):
        env = tuple(sorted((name, value) for name, value in zip(variables, levels) if value is not None))
        reduces = collective in REDUCING
        operation = operation if reduces else None
        settings.append(_Setting(collective, datatype, operation, smallest, largest, factor, ranks, env))
    # Without an operation some are the same.
    return list(dict.fromkeys(settings))


def _filtered(settings: t.Sequence[_Setting], values: t.Mapping[str, t.Any], option: str) -> list[_Setting]:
    levels = _factors(settings)
    levels.update({name: set() for name in values["env"] if name not in levels})
    # Not set is a level that the default adds.
    for name in values["env"]:
        levels[name].add(None)
    exclude, only = (
        [
            _condition(f"{option}.{key}[{index}]", item, levels)
            for index, item in enumerate(_listed(f"{option}.{key}", values[key], least=0))
        ]
        for key in ("exclude", "only")
    )
    return [
        setting
        for setting in settings
        if not any(_matches(condition, setting) for condition in exclude)
        and (not only or any(_matches(condition, setting) for condition in only))
    ]


def _condition(option: str, value: t.Any, levels: t.Mapping[str, set[t.Any]]) -> dict[str, set[t.Any]]:
    if not isinstance(value, t.Mapping) or not value:
        raise OptionError(option, value, "settings or variables of the sweep, each with a value or a list of values")
    condition = {}
    for name, items in value.items():
        if name not in levels:
            raise OptionError(f"{option}.{name}", items, f"one of the names {', '.join(levels)}")
        condition[str(name)] = {_level(f"{option}.{name}", name, item) for item in _listed(f"{option}.{name}", items)}
        # A value that the sweep does not have is a slip that would leave points in, or out, unseen.
        if not condition[name] <= levels[name]:
            known = ", ".join("null" if level is None else str(level) for level in sorted(levels[name], key=str))
            raise OptionError(f"{option}.{name}", items, f"values of the sweep, {known}")
    return condition


def _level(option: str, name: str, value: t.Any) -> t.Any:
    if value is None:
        return None
    if name in ("min_bytes", "max_bytes"):
        return parse_size(option, value)
    if name in ("step_factor", "ranks_per_node"):
        return _integer(option, value, 1)
    return str(value)


def _matches(condition: t.Mapping[str, set[t.Any]], setting: _Setting) -> bool:
    return all(setting.level(name) in values for name, values in condition.items())


def _factors(settings: t.Iterable[_Setting]) -> dict[str, set[t.Any]]:
    """The levels of every factor that the settings have, not set among them."""
    settings = list(settings)
    names = [name for name in _Setting._fields if name != "env"]
    names += dict.fromkeys(name for setting in settings for name, value in setting.env)
    return {name: {setting.level(name) for setting in settings} for name in names}


def _ordered(settings: t.Sequence[_Setting], factors: t.Iterable[str]) -> list[_Setting]:
    """The order of the first repeats, as sweep_points says it."""
    place = {env: index for index, env in enumerate(dict.fromkeys(setting.env for setting in settings))}
    left = sorted(settings, key=lambda setting: (len(setting.env), place[setting.env]))
    names = list(factors)
    levels = [{(name, setting.level(name)) for name in names} for setting in left]
    unseen: set[tuple[str, t.Any]] = set().union(*levels)
    first = []
    # By how many unseen levels each shows, at most, since what is chosen leaves fewer. Of those that show the same number, the one
    # that sets the fewest comes first.
    waiting = [(-len(own), number) for number, own in enumerate(levels)]
    heapq.heapify(waiting)
    while unseen:
        at_most, number = waiting[0]
        shown = -len(levels[number] & unseen)
        if shown != at_most:
            heapq.heapreplace(waiting, (shown, number))
        else:
            first.append(number)
            unseen -= levels[number]
    chosen = set(first)
    return [left[number] for number in [*first, *(number for number in range(len(left)) if number not in chosen)]]


def _point(setting: _Setting, repeat: int, repeats: int, varying: t.Collection[str]) -> dict[str, t.Any]:
    words = [setting.collective]
    words += [str(setting.level(name)) for name in ("datatype", "operation") if name in varying and setting.level(name)]
    if {"min_bytes", "max_bytes", "step_factor"} & set(varying):
        words.append(f"{size_word(setting.min_bytes)}-{size_word(setting.max_bytes)}")
    if "ranks_per_node" in varying:
        words.append(f"{setting.ranks_per_node or 'all'} ranks per node")
    words += [f"{name}={value}" for name, value in setting.env]
    if repeats > 1:
        words.append(f"#{repeat}")
    return {
        "id": _id(setting, repeat),
        "setting": setting.name,
        "name": " ".join(words),
        "collective": setting.collective,
        "options": {
            name: setting.level(name) for name in ("min_bytes", "max_bytes", "step_factor", "datatype", "operation")
        },
        "env": dict(setting.env),
        "ranks_per_node": setting.ranks_per_node,
        "repeat": repeat,
    }


def _id(setting: _Setting, repeat: int) -> str:
    return f"{setting.name}-{repeat}"


def _listed(option: str, value: t.Any, least: int = 1) -> list[t.Any]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(items) < least:
        raise OptionError(option, value, "at least one value")
    return items


def _choices(option: str, value: t.Any, allowed: t.Sequence[str]) -> list[str]:
    items = _listed(option, value)
    for item in items:
        if item not in allowed:
            raise OptionError(option, item, f"one or more of {', '.join(allowed)}")
    return [str(item) for item in items]


def _sizes(option: str, value: t.Any) -> tuple[int, int, int]:
    if not isinstance(value, t.Mapping) or any(name not in _SIZES for name in value):
        raise OptionError(option, value, "min, max and factor, or a list of such")
    smallest, largest = (parse_size(f"{option}.{name}", value[name]) for name in ("min", "max"))
    # Times any factor, 0 stays 0.
    if smallest < 1:
        raise OptionError(f"{option}.min", value["min"], "1 or more")
    if smallest > largest:
        raise OptionError(f"{option}.min", value["min"], f"at most {value['max']}, the largest size")
    return smallest, largest, _integer(f"{option}.factor", value["factor"], 2)


def _variables(option: str, value: t.Any) -> dict[str, list[str | None]]:
    if not isinstance(value, t.Mapping):
        raise OptionError(option, value, "names of environment variables, each with a list of values")
    variables = {}
    for name, items in value.items():
        if not _VARIABLE.match(str(name)):
            raise OptionError(option, name, "names of environment variables, such as NCCL_ALGO")
        variables[str(name)] = [_value(f"{option}.{name}", item) for item in _listed(f"{option}.{name}", items)]
    return variables


def _value(option: str, value: t.Any) -> str | None:
    if value is None:
        return None
    # NCCL reads numbers: True would be 0 to it.
    plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if not plain or not str(value) or re.search("[\x00-\x1f\ud800-\udfff]", str(value)):
        raise OptionError(option, value, "a text of one line or a number, or null for a variable that is not set")
    return str(value)


def _integer(option: str, value: t.Any, least: int) -> int:
    # Values that came by the command line are texts.
    if isinstance(value, bool) or not re.match(r"\d{1,9}\Z", str(value)) or int(value) < least:
        raise OptionError(option, value, f"a whole number, {least} or more")
    return int(value)
