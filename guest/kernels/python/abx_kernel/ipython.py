"""The shell where IPython is installed: its magics, its display system, its tracebacks."""
import sys
import warnings

from abx_kernel import hooks, jsonable, late, rich

late.start()
import IPython  # noqa: E402
from IPython.core.displayhook import DisplayHook  # noqa: E402
from IPython.core.displaypub import DisplayPublisher  # noqa: E402
from IPython.core.formatters import BaseFormatter  # noqa: E402
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from traitlets import Type, Unicode  # noqa: E402
from traitlets.config import Config  # noqa: E402


class Hook(DisplayHook):
    """The value of a cell's last expression."""

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        if self.shell.past is None or not self.shell.past.is_sent:
            rich.send_result(format_dict, True)

    def finish_displayhook(self):
        self._is_active = False


class Publisher(DisplayPublisher):
    """display(); updates of earlier displays and clear_output have no place in a stream of results."""

    def publish(self, data, metadata=None, *_source, update=False, **_options):
        if not update:
            rich.send_result(data, False)

    def clear_output(self, wait=False):
        pass


class ObjectFormatter(BaseFormatter):
    """A formatter whose values are JSON objects."""
    _return_type = (dict, list)


class DataFormatter(ObjectFormatter):
    format_type = Unicode("e2b/data")
    print_method = "_repr_e2b_data_"


class ChartFormatter(ObjectFormatter):
    format_type = Unicode("e2b/chart")
    print_method = "_repr_e2b_chart_"

    def pop(self, typ, default=None):
        """Keeps its types: matplotlib's backend takes Figure from all formatters before it adds its own."""
        return default


class Shell(InteractiveShell):
    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)
    past = None  # the cell that is taken into the books

    def run(self, code, count):
        self.execution_count = count
        self.run_cell(code, store_history=True)

    def settled(self):
        return self

    def keep(self, past):
        """Takes a cell into the books that was run before (early.py), and shows of it what was not shown."""
        async def give(*_arguments, result=None, **_options):
            return self.give(past, result)

        self.past = past
        self.run_ast_nodes = give
        self.compile.get_code_name = lambda *_arguments: past.name
        try:
            self.run(past.code, past.count)
        finally:
            del self.run_ast_nodes, self.compile.get_code_name
            self.past = None

    def give(self, past, result):
        """What came of @past, as run_code() would: whether it was an exception."""
        try:
            if past.error is not None:
                raise past.error.with_traceback(past.trace)  # adds one frame to it, as run_code() does
            sys.displayhook(past.value)
        except SystemExit as error:
            result.error_in_exec = error
            self.showtraceback(exception_only=True)
            warnings.warn("To exit: use 'exit', 'quit', or Ctrl-D.", stacklevel=1)
        except BaseException as error:  # whatever a cell raises is its answer
            result.error_in_exec = error
            self.showtraceback(running_compiled_code=True)
        else:
            return False
        return True

    def _showtraceback(self, etype, evalue, stb):
        rich.send_error(etype.__name__, str(evalue), "".join(stb))

    def enable_gui(self, gui=None):
        """No event loop of a toolkit runs here."""

    def ask_exit(self):
        raise SystemExit("the context stays; restart or remove it from outside")


def add_formatters(shell):
    formatters = shell.display_formatter.formatters
    data, chart = DataFormatter(parent=shell.display_formatter), ChartFormatter(parent=shell.display_formatter)
    formatters["e2b/data"], formatters["e2b/chart"] = data, chart
    for formatter in (data, chart):
        formatter.enabled = True
    data.for_type_by_name("pandas", "DataFrame", rich.table_data)  # from pandas 3 on
    data.for_type_by_name("pandas.core.frame", "DataFrame", rich.table_data)
    chart.for_type_by_name("matplotlib.figure", "Figure", rich.figure_chart)
    for kind in (dict, list):
        formatters["application/json"].for_type(kind, jsonable.clean)


def make_shell(module):
    """@module: of the user's names."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor" if IPython.version_info[0] < 9 else "nocolor"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shell = Shell.instance(config=config, user_module=module)
    add_formatters(shell)
    hooks.show_images(lambda image: IPython.display.display(image))
    return shell
