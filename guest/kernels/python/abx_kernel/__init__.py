"""The Python kernel of the code interpreter."""
