"""A small shop that renders in the browser, to see the product work on: `bin/up --demo`."""
