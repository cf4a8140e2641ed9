"""Slots: as many as there are, first come first served, none lost to a withdrawal."""

from __future__ import annotations

from agentic_kernel_local.slots import Slots


def test_a_slot_is_taken_at_once_while_there_is_one_and_waited_for_in_order() -> None:
    slots = Slots(2)
    first, second, third, fourth = (slots.take() for _ in range(4))
    assert [ticket.done() for ticket in (first, second, third, fourth)] == [
        True,
        True,
        False,
        False,
    ]
    slots.give()
    assert (third.done(), fourth.done()) == (True, False)
    slots.give()
    assert fourth.done()


def test_who_withdraws_from_the_queue_is_passed_over() -> None:
    slots = Slots(1)
    slots.take()
    impatient, patient = slots.take(), slots.take()
    slots.withdraw(impatient)
    slots.give()
    assert impatient.cancelled()
    assert patient.done()


def test_a_slot_that_came_while_withdrawing_goes_to_the_next() -> None:
    slots = Slots(1)
    slots.take()
    late, next_one = slots.take(), slots.take()
    slots.give()
    slots.withdraw(late)
    assert next_one.done()
    slots.give()
    assert slots.take().done()
