"""A translation server: HTTP in LibreTranslate's form, and a page to type in."""
