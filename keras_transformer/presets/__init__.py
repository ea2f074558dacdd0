"""Presets: trained models in KerasHub's form, read and written without KerasHub."""
