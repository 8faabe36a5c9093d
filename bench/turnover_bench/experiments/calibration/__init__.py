"""Do intervals and significance keep their promise? 32 trainings of one network, and ids that were never trained."""
