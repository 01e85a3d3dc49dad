"""What the load engine costs and how true its times are, against a server that writes down when it sent what.

In scope: a loopback server and a plain client in C, the engine and other load generators run against that server, the
join of their times with the truth, the tables of docs/performance.md. Not in scope: anything that a product run imports.
"""
