"""A help desk: customers open tickets, a model works on them, people approve its refunds."""
