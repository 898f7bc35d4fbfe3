"""The tab as it greets a person: what is missing is said, buttons are there, and a click on Fit is answered in words."""


def scenario(window):
    """Opens the tab, looks at it, and presses Fit without an engine and without a saved file."""
    yield from window.open_tab()
    yield from window.picture("at-first")
    yield from window.click("splatfit.fit(")
    assert any("splatfit.set_up_engine(" in name for name in window.seen), window.seen
    yield from window.picture("fit-without-an-engine")
