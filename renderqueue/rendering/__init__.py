"""Rendering: a browser, what a page may do in it, the verdict on what came out, and storing it."""
