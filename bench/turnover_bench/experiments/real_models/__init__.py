"""Real models measured: adapters and whole-network masks on SST-2, VGG19 on CIFAR-10, the engine on a transformer."""
