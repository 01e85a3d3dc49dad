"""Other load generators, each in a virtual environment of its own under var/bench/venvs/: how it is installed, run and
read. One module per peer."""
