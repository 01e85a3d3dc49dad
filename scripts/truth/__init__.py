"""`make truth`: is the judge right? Random grids on the simulated runtime, whose truth is known from its parameters."""
