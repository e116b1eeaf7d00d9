"""An independent reading of cron expressions: one moment, yes or no."""

from hypothesis import strategies as st

NAMES = {
    name: number
    for names, start in (
        (("sun", "mon", "tue", "wed", "thu", "fri", "sat"), 0),
        (
            ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
            1,
        ),
    )
    for number, name in enumerate(names, start)
}


def as_number(text):
    return NAMES[text.lower()] if text.lower() in NAMES else int(text)


def field_matches(field, values, lowest, highest):
    """Whether any of the values (Sunday counts as 0 and as 7) is in the field."""
    for item in field.split(","):
        span, _, step = item.partition("/")
        low, _, high = span.partition("-")
        if span in {"*", "?"}:
            first, last = lowest, highest
        else:
            first = as_number(low)
            last = as_number(high) if high else (highest if step else first)
        stride = int(step or 1)
        if any(first <= value <= last and (value - first) % stride == 0 for value in values):
            return True
    return False


def is_free(field):
    return any(item in {"*", "?", "*/1", "?/1"} for item in field.split(","))


def day_matches(expression, day):
    _minute, _hour, day_of_month, month, weekday = expression.split()
    sunday_first = day.isoweekday() % 7
    weekday_values = {sunday_first, 7} if sunday_first == 0 else {sunday_first}
    day_ok = field_matches(day_of_month, {day.day}, 1, 31)
    weekday_ok = field_matches(weekday, weekday_values, 0, 6)
    combine = all if is_free(day_of_month) or is_free(weekday) else any
    return field_matches(month, {day.month}, 1, 12) and combine((day_ok, weekday_ok))


def matches(expression, moment):
    minute, hour, *_ = expression.split()
    return (
        field_matches(minute, {moment.minute}, 0, 59)
        and field_matches(hour, {moment.hour}, 0, 23)
        and day_matches(expression, moment)
    )


def fields(lowest, highest, names=()):
    numbers = st.integers(lowest, highest)
    words = numbers.map(str)
    if names:
        words = words | st.sampled_from(names)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.integers(1, highest + 5)
    item = (
        st.just("*")
        | words
        | ranges
        | st.tuples(st.just("*") | words | ranges, steps).map(lambda p: f"{p[0]}/{p[1]}")
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.tuples(
    fields(0, 59),
    fields(0, 23),
    fields(1, 28),
    fields(1, 12, ["jan", "Jul", "DEC"]),
    fields(0, 6, ["sun", "Mon", "SAT"]),
).map(" ".join)
