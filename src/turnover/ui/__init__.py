"""What users see: the command line, the report and the live page.

Owns: words, layout, HTTP. Must not know: how anything is computed; results come from `turnover.runs` and
`turnover.applications`, and are only formatted here. Nothing outside imports this folder.

| folder or file | one idea |
| --- | --- |
| `words.py` | counts, percents, durations, scores with standard errors, shortened and marked text: one rule each |
| `pictures.py` | images: from a file to pixels for a run, from pixels to files for pages |
| `html/` | the report of a run: one HTML page, and its data as JSON |
| `web/` | the live page and its JSON API; shares templates and style with the report |
| `terminal/` | the commands |
"""
