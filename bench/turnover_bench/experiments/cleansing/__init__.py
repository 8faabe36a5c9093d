"""Data cleansing: SST-2 without the rows that harm electronics reviews, against all rows and random removal."""
