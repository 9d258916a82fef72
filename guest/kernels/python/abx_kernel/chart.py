"""What a matplotlib figure shows, as data: the `chart` of a result (types, elements, labels, units, ticks).

Every key of a type is always there, None where nothing is known: the clients read them by subscript.
"""
import datetime
import re

import matplotlib.dates
import numpy
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle, Wedge

UNIT = re.compile(r"\s\(([^()]+)\)|\[([^\[\]]+)\]")


def of_figure(figure):
    """{} where there is nothing to tell, or where telling failed: a chart is never a reason to lose the picture."""
    try:
        return figure_chart(figure)
    except Exception:  # whatever a figure may hold
        return {}


def figure_chart(figure):
    charts = [axes_chart(axes) for axes in figure.axes if axes.has_data()]
    if not charts:
        return {}
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if figure._suptitle is not None else ""
    return {"type": "superchart", "title": title or None, "elements": charts}


def axes_chart(axes):
    kind, elements, swapped = detect(axes), [], False
    if kind in PLAIN:
        elements = PLAIN[kind](axes)
    elif kind in TURNED:
        elements, swapped = TURNED[kind](axes)
    chart = {"type": kind, "title": axes.get_title() or None, "elements": elements}
    if kind in ("line", "scatter", "bar", "box_and_whisker"):
        x, y = axes.get_xlabel(), axes.get_ylabel()
        if swapped:
            x, y = y, x
        chart.update(x_label=x or None, y_label=y or None, x_unit=unit(x), y_unit=unit(y))
    if kind in ("line", "scatter"):
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            chart[f"{name}_ticks"] = [tick_value(axis, at) for at in axis.get_majorticklocs()]
            chart[f"{name}_tick_labels"] = [label.get_text() for label in axis.get_ticklabels()]
            chart[f"{name}_scale"] = scale(axis)
    return chart


def artists_of(axes):
    return [*axes.lines, *axes.patches, *axes.collections, *axes.images, *axes.tables]


def all_are(artists, *kinds):
    return bool(artists) and all(isinstance(artist, kinds) for artist in artists)


def detect(axes):
    artists = artists_of(axes)
    if all_are(artists, Line2D):
        return "line"
    if all_are(artists, PathPatch, Line2D) and any(isinstance(artist, PathPatch) for artist in artists):
        return "box_and_whisker"
    data = [artist for artist in artists if not is_grid_line(artist)]
    for kind, artist_kind in (("scatter", PathCollection), ("pie", Wedge), ("bar", Rectangle)):
        if all_are(data, artist_kind):
            return kind
    return "unknown"


def is_grid_line(artist):
    if not isinstance(artist, Line2D):
        return False
    x, y = artist.get_xdata(), artist.get_ydata()
    return len(x) == 2 and len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])


# ---- values

def unit(label):
    found = UNIT.search(label or "")
    return (found.group(1) or found.group(2)) if found else None


def is_date_axis(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return "Date" in type(converter).__name__


def iso(value):
    if isinstance(value, numpy.datetime64):
        return str(value.astype("datetime64[s]"))
    return value.isoformat()


def point_value(value):
    """A coordinate as it was given: a date or a category keeps its face."""
    if isinstance(value, (datetime.date, datetime.time, numpy.datetime64)):
        return iso(value)
    return str(value) if isinstance(value, str) else float(value)


def tick_value(axis, at):
    return matplotlib.dates.num2date(at).isoformat() if is_date_axis(axis) else float(at)


def scale(axis):
    if is_date_axis(axis):
        return "datetime"
    name = axis.get_scale()
    ticks = [float(at) for at in axis.get_majorticklocs()]
    labels = [label.get_text() for label in axis.get_ticklabels()]
    counts = ticks == [float(n) for n in range(len(ticks))]
    if name == "linear" and ticks and counts and labels != [str(n) for n in range(len(ticks))]:
        return "categorical"
    return name


def name_of(label, private, public):
    """matplotlib's own name ("_child0") as one for people ("Line 0")."""
    number = label[len(private):] if label.startswith(private) else ""
    return f"{public} {number}" if number.isdigit() else label


def labels_by_place(axis, centres):
    """The tick label of each centre: by number where there is one each, else the nearest."""
    ticks = [(float(at), label.get_text()) for at, label in zip(axis.get_majorticklocs(), axis.get_ticklabels())]
    if len(ticks) == len(centres):
        return [text for _, text in ticks]
    return [min(ticks, key=lambda tick: abs(tick[0] - at))[1] if ticks else "" for at in centres]


# ---- types

def lines(axes):
    return [{"label": name_of(line.get_label(), "_child", "Line"),
             "points": [[point_value(x), point_value(y)]
                        for x, y in zip(line.get_xdata(orig=True), line.get_ydata(orig=True))]}
            for line in axes.lines if not is_grid_line(line)]


def scatters(axes):
    def coordinate(axis, value):
        return tick_value(axis, value) if is_date_axis(axis) else float(value)

    return [{"label": group.get_label(),
             "points": [[coordinate(axes.xaxis, x), coordinate(axes.yaxis, y)] for x, y in group.get_offsets()]}
            for group in axes.collections]


def wedges(axes):
    return [{"label": wedge.get_label(), "angle": float(f"{abs(wedge.theta2 - wedge.theta1):.8g}"),
             "radius": float(wedge.r)} for wedge in axes.patches]


def bars(axes):
    """Elements, and whether they lie: all rectangles of one height are bars to the right."""
    lying = len({float(bar.get_height()) for bar in axes.patches}) == 1
    grouped = [(group.get_label(), list(group.patches)) for group in axes.containers if hasattr(group, "patches")]
    elements = []
    for name, group in grouped or [("_container0", list(axes.patches))]:
        if lying:
            centres, axis = [bar.get_y() + bar.get_height() / 2 for bar in group], axes.yaxis
        else:
            centres, axis = [bar.get_x() + bar.get_width() / 2 for bar in group], axes.xaxis
        for label, bar in zip(labels_by_place(axis, centres), group):
            elements.append({"label": label, "group": name_of(name, "_container", "Group"),
                             "value": float(bar.get_width() if lying else bar.get_height())})
    return elements, lying


def boxes(axes):
    found, lying = [], boxes_lie(axes)
    along, across = (0, 1) if lying else (1, 0)  # of the values, of the boxes side by side
    for patch in (patch for patch in axes.patches if isinstance(patch, PathPatch)):
        corners = patch.get_path().vertices
        low, high = float(corners[:, along].min()), float(corners[:, along].max())
        side = (float(corners[:, across].min()), float(corners[:, across].max()))
        found.append((sum(side) / 2, box(axes, along, (low, high), side)))
    labels = labels_by_place(axes.yaxis if lying else axes.xaxis, [centre for centre, _ in found])
    return [{"label": label, **values} for label, (_, values) in zip(labels, found)], lying


def positions(line):
    """Both coordinates of a line as numbers; [0] x, [1] y."""
    return [[float(v) for v in line.get_xdata(orig=False)], [float(v) for v in line.get_ydata(orig=False)]]


def boxes_lie(axes):
    """Whiskers run along the values: a two-point line that leaves the middle of a box."""
    for patch in (patch for patch in axes.patches if isinstance(patch, PathPatch)):
        corners = patch.get_path().vertices
        centre = [(float(corners[:, at].min()) + float(corners[:, at].max())) / 2 for at in (0, 1)]
        for x, y in map(positions, axes.lines):
            if len(x) == 2 and y[0] == y[1] and x[0] != x[1] and abs(y[0] - centre[1]) < 1e-9:
                side = float(corners[:, 0].min()), float(corners[:, 0].max())
                if x[0] in side or x[1] in side:
                    lies_outside = not (min(x) >= side[0] and max(x) <= side[1])
                    if lies_outside:
                        return True
    return False


def box(axes, along, ends, side):
    low, high = ends
    middle = sum(side) / 2
    values = {"min": low, "first_quartile": low, "median": low, "third_quartile": high, "max": high, "outliers": []}
    for line in axes.lines:
        place = positions(line)
        value, beside = place[along], place[1 - along]
        if not value or min(beside) < side[0] - 1e-9 or max(beside) > side[1] + 1e-9:
            continue
        if line.get_linestyle() in ("None", "none", "", " "):
            values["outliers"] += value
        elif len(value) == 2 and beside[0] == beside[1] and abs(beside[0] - middle) < 1e-9:
            values["min"], values["max"] = min(values["min"], *value), max(values["max"], *value)
        elif value[0] == value[-1] and low <= value[0] <= high and spans(beside, side):
            values["median"] = value[0]
    return values


def spans(beside, side):
    """A line from one side of the box to the other: the median; caps are shorter."""
    return abs(min(beside) - side[0]) < 1e-9 and abs(max(beside) - side[1]) < 1e-9


PLAIN = {"line": lines, "scatter": scatters, "pie": wedges}
TURNED = {"bar": bars, "box_and_whisker": boxes}
