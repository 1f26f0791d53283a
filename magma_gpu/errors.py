"""Errors that a user can cause: one sentence each, shown without a traceback.

Mistakes of our own are assertions and are not caught anywhere.
"""


class MagmaError(Exception):
    """A command, config, input or store that cannot be used; the message says what to do (exit code 2)."""


class ConfigError(MagmaError):
    """A config file or `--set` value that does not fit."""


class InputError(MagmaError):
    """An input that is missing, unreadable or of no known format."""


class StoreError(MagmaError):
    """A store that cannot be read, continued or written."""


class MissingPackageError(MagmaError):
    """An optional package that a setting asks for and that is not installed."""


def missing_package(package: str, extra: str, wanted_for: str) -> MissingPackageError:
    """Returns the error for an optional package that is not installed.

    Args:
        package: the name to import.
        extra: the extra of this distribution that brings it.
        wanted_for: what it was wanted for, as the end of "is needed for".
    """
    return MissingPackageError(
        f"The package {package} is needed for {wanted_for} and is not installed: pip install 'magma-gpu[{extra}]'."
    )
