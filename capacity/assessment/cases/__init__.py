"""The seven classic mistakes of a capacity measurement, one module each: a pure function from facts to one finding."""
