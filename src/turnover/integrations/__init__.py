"""Other libraries' models, trainers and estimators.

Owns: the only files that know transformers, peft, lightning, scikit-learn or cleanlab. Must not know: reports, tasks,
the command line. Nothing is imported here: each file is loaded where its library is used.
"""
