"""Dicts in a line, for people."""

_MOST_LISTED = 8  # entries of a list


def listed(values):
    """The entries of a dict that say something, long lists cut short."""
    return ", ".join(
        f"{name}={_short(value)}" for name, value in values.items() if value not in (None, [], ())
    )


def _short(value):
    if isinstance(value, list | tuple) and len(value) > _MOST_LISTED:
        return f"[{', '.join(map(repr, value[:_MOST_LISTED]))}, ... {len(value)} in all]"
    return repr(value)
