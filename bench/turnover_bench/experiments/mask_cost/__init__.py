"""What masks cost in accuracy, by width, rows, epochs, keep rate and place, for three kinds of networks."""
