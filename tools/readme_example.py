"""Run the Python of a README as a reader would paste it: `python readme_example.py README.md`."""

import re
import sys
from pathlib import Path

readme = Path(sys.argv[1]).read_text(encoding="utf-8")
for number, block in enumerate(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)):
    exec(compile(block, f"{sys.argv[1]}, block {number + 1}", "exec"), globals())
