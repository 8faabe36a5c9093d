"""What masks cost in accuracy with many classes and after short trainings."""
