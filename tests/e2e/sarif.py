"""tests/e2e/sarif.py: what the published schema of SARIF 2.1.0 asks of the objects that a linter writes."""
TEXT, COUNT, INDEX = ("text",), ("integer", 1), ("integer", 0)  # smallest value
LEVELS = ("one of", "none", "note", "warning", "error")


def some(kind):
    return ("array", kind)


# object: {property: (kind, is it required)}; what is not named here the schema knows and we do not write
OBJECTS = {
    "log": {"$schema": (TEXT, False), "version": (("one of", "2.1.0"), True), "runs": (some("run"), True)},
    "run": {"tool": ("tool", True), "results": (some("result"), False),
            "columnKind": (("one of", "utf16CodeUnits", "unicodeCodePoints"), False)},
    "tool": {"driver": ("toolComponent", True)},
    "toolComponent": {"name": (TEXT, True), "version": (TEXT, False), "rules": (some("reportingDescriptor"), False)},
    "reportingDescriptor": {"id": (TEXT, True), "shortDescription": ("message", False)},
    "message": {"text": (TEXT, True)},
    "result": {"message": ("message", True), "ruleId": (TEXT, False), "ruleIndex": (INDEX, False), "level": (LEVELS, False),
               "locations": (some("location"), False), "fixes": (some("fix"), False)},
    "location": {"physicalLocation": ("physicalLocation", False)},
    "physicalLocation": {"artifactLocation": ("artifactLocation", True), "region": ("region", False)},
    "artifactLocation": {"uri": (TEXT, False), "uriBaseId": (TEXT, False)},
    "region": {"startLine": (COUNT, False), "startColumn": (COUNT, False), "endColumn": (COUNT, False)},
    "fix": {"description": ("message", False), "artifactChanges": (some("artifactChange"), True)},
    "artifactChange": {"artifactLocation": ("artifactLocation", True), "replacements": (some("replacement"), True)},
    "replacement": {"deletedRegion": ("region", True), "insertedContent": ("artifactContent", False)},
    "artifactContent": {"text": (TEXT, False)},
}
NOT_EMPTY = {"artifactChanges", "replacements"}


def faults(value, kind="log", where="log"):
    """What is wrong with @value, as lines."""
    if isinstance(kind, str):
        if not isinstance(value, dict):
            return [f"{where}: no object"]
        known = OBJECTS[kind]
        lines = [f"{where}: lacks {name}" for name, (_, required) in known.items() if required and name not in value]
        lines += [f"{where}: {name} is not known" for name in value if name not in known]
        return lines + [line for name, item in value.items() if name in known for line in faults(item, known[name][0], f"{where}.{name}")]
    if kind[0] == "array":
        if not isinstance(value, list) or (not value and where.rpartition(".")[2] in NOT_EMPTY):
            return [f"{where}: no array, or an empty one"]
        return [line for i, item in enumerate(value) for line in faults(item, kind[1], f"{where}[{i}]")]
    if kind[0] == "integer":
        return [] if type(value) is int and value >= kind[1] else [f"{where}: {value!r}"]
    if kind[0] == "one of":
        return [] if value in kind[1:] else [f"{where}: {value!r} is none of {kind[1:]}"]
    return [] if isinstance(value, str) else [f"{where}: {value!r} is no text"]


def misplaced(log):
    """Rules that a result names and the run does not have at that place; regions that end before they begin."""
    lines = []
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        if len(set(rules)) != len(rules):
            lines.append(f"rules are named twice: {rules}")
        for result in run["results"]:
            if rules[result["ruleIndex"]] != result["ruleId"]:
                lines.append(f"{result['ruleId']} is not rule {result['ruleIndex']}")
            for location in result["locations"]:
                region = location["physicalLocation"].get("region", {"startColumn": 1, "endColumn": 1})
                if region["endColumn"] < region["startColumn"]:
                    lines.append(f"{region} ends before it begins")
    return lines
