"""The cases of this folder: addresses, and the page that lists them."""

from __future__ import annotations

from collections import Counter

from tests.reports.cases import ADDRESS, Report
from tests.reports.index import PAGE, cases_of, modules, page


def test_each_test_names_its_report() -> None:
    assert [
        f"{module.__name__}.{test.__name__}"
        for module in modules()
        for test in cases_of(module)
        if not hasattr(test, "report")
    ] == []


def test_addresses_are_well_formed_and_unique() -> None:
    reports: list[Report] = [test.report for module in modules() for test in cases_of(module)]  # type: ignore[attr-defined]
    addresses = [address for report in reports for address in (report.address, *report.also)]
    assert [address for address in addresses if not ADDRESS.fullmatch(address)] == []
    assert [address for address, times in Counter(addresses).items() if times > 1] == []
    assert [report for report in reports if not report.title or report.title.endswith(".")] == []


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python tests/reports/index.py"
