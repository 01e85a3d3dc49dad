"""What the make targets do: set-up, starting and ending processes, and the demonstration drivers."""
