"""What masks cost in accuracy: adapters on SST-2, VGG19 on CIFAR-10, and what leaks through its early layers."""
