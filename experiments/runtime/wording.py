"""How methods and numbers are written on the page and in the plot."""


def network_title(name: str) -> str:
    """Return what a way to compute our scores is called.

    Example:
        >>> network_title("1"), network_title("loop")
        ('engine, masks of the top block and output layer', "the authors' loop, all masks")
    """
    if name == "loop":
        return "the authors' loop, all masks"
    if name == "all":
        return "engine, all masks"
    if name == "0":
        return "engine, masks of the output layer"
    return f"engine, masks of the top {'block' if name == '1' else f'{name} blocks'} and output layer"


def short_title(name: str) -> str:
    """Return the same in few words, for a legend.

    Example:
        >>> short_title("1"), short_title("0")
        ('engine, top block', 'engine, output layer')
    """
    long = network_title(name).replace("masks of the ", "")
    return long.removesuffix(" and output layer")


_KOH = {
    "han2020": "Han et al.: t = \\|D\\| / 4, r = 1, b = 8",
    "table1": "Table 1: rt = \\|D\\|, b = 8",
    "table1_single": "Table 1: rt = \\|D\\|, b = 1",
    "no_inverse": "gradients alone, no inverse",
}


def koh_title(name: str) -> str:
    """Return what a setting of influence functions is called, for a table.

    Example:
        >>> koh_title("no_inverse")
        'gradients alone, no inverse'
    """
    return _KOH[name]


def time_of(seconds: float) -> str:
    """Return seconds as a reader would say them.

    Example:
        >>> time_of(0.25), time_of(35), time_of(3600)
        ('0.25 s', '35 s', '60 min')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:,.0f} min"


def times(ratio: float) -> str:
    """Return a ratio with as many digits as it deserves.

    Example:
        >>> times(6.04), times(123.4), times(12345.0)
        ('6.0', '123', '12,000')
    """
    if ratio < 10:
        return f"{ratio:.1f}"
    digits = max(0, len(str(int(ratio))) - 3) + (1 if ratio >= 1000 else 0)
    return f"{round(ratio, -digits):,.0f}"
