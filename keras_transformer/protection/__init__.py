"""Parts of a text that are not translated: found, taken out, and put back into a translation."""
