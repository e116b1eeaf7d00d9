"use strict";
// Draws the charts, whose data the page brings along.
{
  const { documents, items } = JSON.parse(document.getElementById("charts").textContent);
  Bokeh.logger.set_level("error");
  Bokeh.embed.embed_items(documents, items);
}
