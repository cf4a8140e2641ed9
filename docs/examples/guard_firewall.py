"""A model's view of a result: a summary, a table with its cuts, and no secrets."""

from __future__ import annotations

from agentic_kernel_guard import Budgets, Firewall, FrameLimits, RawRefused, RawResult


# --8<-- [start:firewall]
def main() -> None:
    rows = [
        {"id": n, "name": f"Customer {n}", "mail": f"c{n}@example.com", "card": "4111111111111111"}
        for n in range(120)
    ]
    raw = RawResult(rows, "crm-api", "crm")
    firewall = Firewall(Budgets(rows=2))
    limits = FrameLimits(sensitive_fields=frozenset({"name"}))
    table = firewall.frame(raw, mode="table", constraints=limits)
    for row in table.rows:
        print(row)
    print([cut.as_json() for cut in table.cuts], table.redactions, table.taint)
    print(firewall.frame(raw, mode="summary", constraints=limits).summary)
    try:
        firewall.frame(raw, mode="raw", constraints=limits)
    except RawRefused as error:
        print(error)
    # --8<-- [end:firewall]


if __name__ == "__main__":
    main()
