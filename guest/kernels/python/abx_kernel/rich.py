"""From a bundle {MIME type: value} to the `result` message."""
from abx_kernel import wire

KEYS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def clean(value):
    from abx_kernel import jsonable  # text needs none of what that imports
    return jsonable.clean(value)


def strip_quotes(text):
    """The repr of a string, as the string: one pair of quotes goes, no escape is undone."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def message(bundle, is_main):
    result, extra = {"type": "result"}, {}
    for mime, value in bundle.items():
        if value is None:
            continue
        if mime not in KEYS:
            extra[mime] = clean(value)
        elif mime == "text/plain":
            result["text"] = strip_quotes(str(value))
        else:
            result[KEYS[mime]] = clean(value)
    result["extra"] = extra
    result["is_main_result"] = is_main
    return result


def send_result(bundle, is_main):
    wire.flush()
    wire.send(message(bundle, is_main))


def send_error(name, value, traceback):
    wire.flush()
    wire.send({"type": "error", "name": name, "value": value, "traceback": traceback})


def table_data(frame):
    """A DataFrame as {column: [values]}."""
    return {str(name): clean(frame.iloc[:, at].tolist()) for at, name in enumerate(frame.columns)}


def figure_chart(figure):
    from abx_kernel import chart
    return chart.of_figure(figure)
