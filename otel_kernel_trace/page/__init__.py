"""The page on which a person reads a tree: ``otel-kernel-trace report`` and ``serve``.

``report`` packs the page, its scripts and all texts in one file that needs nothing else;
``serve`` hands out the same page and the texts as they are asked for. Both give the page
the same values, which :mod:`.shown` makes out of the reader's.

Needs the extra ``cli``.
"""
