"""Puts this directory on the import path, so that tests below it find ``interpreted``."""
