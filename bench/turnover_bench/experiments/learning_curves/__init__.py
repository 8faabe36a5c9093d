"""Loss of kept, flipped and test rows while adapters learn SST-2, and how near flipped and test curve are."""
