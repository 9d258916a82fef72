"""The published number whose behaviour this is."""
from ._constants import SERVER_COMPAT

__version__ = SERVER_COMPAT
