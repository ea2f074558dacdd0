"""Token ids that every vocabulary reserves."""

PAD_ID = 0
START_ID = 1
END_ID = 2
UNKNOWN_ID = 3
