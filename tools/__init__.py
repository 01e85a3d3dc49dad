"""Tools for trying the product against a real runtime; nothing in the product imports them."""
