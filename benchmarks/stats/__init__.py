"""Statistics with a licence: quantiles with the sample-size law, shares with their denominators.

In scope: numbers in, an estimate with its n, bounds and what it still needs out. Not in scope: what the numbers mean,
I/O, clocks, dice.
"""
