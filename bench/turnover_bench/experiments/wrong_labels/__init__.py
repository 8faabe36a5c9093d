"""Do the likely wrong labels of a report contain as many changed ones as cleanlab finds with five folds?"""
