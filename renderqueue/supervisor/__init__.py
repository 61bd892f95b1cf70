"""One command that runs the whole product on one machine: database, web, two workers, beat."""
