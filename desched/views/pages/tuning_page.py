"""A search for a better policy as a page: the result, the front, and the later days."""

from desched.views.pages.front_chart import front_chart
from desched.views.pages.timeline_page import Before, timeline_page
from desched.views.tuning import TuningView, score_texts


def tuning_page(view: TuningView) -> str:
    """The page; its charts are drawn by Bokeh."""
    values = {
        "title": view.title,
        "about": view.about,
        "view": view,
        "changes": view.changes,
        "score_texts": score_texts,
    }
    plots = {"front": front_chart(view.front, view.today)}
    return timeline_page(view.judged, Before("tuning.html", values, plots))
